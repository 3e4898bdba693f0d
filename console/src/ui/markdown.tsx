// Markdown as elements. Nothing of the text becomes markup, and nothing is loaded.
import { useMemo } from "preact/hooks";
import { type Block, markdown, type Span } from "../model/markdown.ts";
import { Foreign } from "./foreign.tsx";
import { TableView } from "./table.tsx";

export function MarkdownView({ text }: { text: string }) {
  const found = useMemo(() => markdown(text), [text]);
  return (
    <div class="markdown">
      <Blocks of={found} />
    </div>
  );
}

function Blocks({ of }: { of: Block[] }) {
  return <>{of.map((one) => blockOf(one))}</>;
}

function blockOf(one: Block) {
  switch (one.kind) {
    case "heading":
      // The page's own headings are above it.
      return (
        <p class={`heading level-${one.level}`} role="heading" aria-level={Math.min(6, one.level + 3)}>
          <Spans of={one.spans} />
        </p>
      );
    case "paragraph":
      return (
        <p>
          <Spans of={one.spans} />
        </p>
      );
    case "code":
      return (
        <pre class="plain" tabIndex={0}>
          <Foreign text={one.text} />
        </pre>
      );
    case "quote":
      return (
        <blockquote>
          <Blocks of={one.blocks} />
        </blockquote>
      );
    case "list": {
      const items = one.items.map((item) => (
        <li>
          <Blocks of={item} />
        </li>
      ));
      return one.start === undefined ? <ul>{items}</ul> : <ol start={one.start}>{items}</ol>;
    }
    case "table":
      return <TableView head={one.head.map((cell) => <Spans of={cell} />)} rows={one.rows.map((row) => row.map((cell) => <Spans of={cell} />))} />;
    case "rule":
      return <hr />;
  }
}

function Spans({ of }: { of: Span[] }) {
  return <>{of.map((one) => spanOf(one))}</>;
}

function spanOf(one: Span) {
  switch (one.kind) {
    case "text":
      return <Foreign text={one.text} />;
    case "code":
      return (
        <code>
          <Foreign text={one.text} />
        </code>
      );
    case "strong":
      return (
        <strong>
          <Spans of={one.spans} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Spans of={one.spans} />
        </em>
      );
    case "link":
      return (
        <a href={one.to} title={one.to} target="_blank" rel="noopener noreferrer">
          <Spans of={one.spans} />
        </a>
      );
  }
}
