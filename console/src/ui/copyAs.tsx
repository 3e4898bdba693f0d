// Copies what the page shows as a command or a program that asks for it.
import { type Snippets } from "../model/snippets.ts";
import { Copy } from "./parts.tsx";

export function CopyAs({ of }: { of: Snippets }) {
  return (
    <details class="menu">
      <summary>Copy as</summary>
      <div class="card stack">
        {([["curl", of.curl], ["CLI", of.cli], ["Python", of.python]] as const).map(([name, text]) => (
          <div key={name}>
            <Copy text={text} label={name} />
            <pre class="plain">{text}</pre>
          </div>
        ))}
      </div>
    </details>
  );
}
