// Text of strangers, apart from what stands beside it: its direction ends with it, and what can't be seen is named.
import { useMemo } from "preact/hooks";
import { pieces } from "../model/strange.ts";

export function Foreign({ text }: { text: string }) {
  const found = useMemo(() => pieces(text), [text]);
  return (
    <bdi>
      {found.map((one) =>
        one.code ? (
          <abbr class="strange" title={one.code}>
            {one.text}
          </abbr>
        ) : one.tone ? (
          <span class={one.tone}>{one.text}</span>
        ) : (
          one.text
        ),
      )}
    </bdi>
  );
}
