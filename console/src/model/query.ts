// What the field of the list's page searches for.

export interface Search {
  labels: Record<string, string>;
  /** One word that may begin a run's id. */
  prefix: string;
  words: string[];
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,35}$/;

/** Reads what was written: `key=value` is a label, `id:` begins an id, and the rest are words of a goal. */
export function search(text: string): Search {
  const found: Search = { labels: {}, prefix: "", words: [] };
  for (const part of text.trim().split(/\s+/).filter(Boolean)) {
    const label = /^([^=]+)=(.*)$/.exec(part);
    if (label) found.labels[label[1]!] = label[2]!;
    else if (part.startsWith("id:") && NAME.test(part.slice(3))) found.prefix = part.slice(3);
    else found.words.push(part.toLowerCase());
  }
  return found;
}

/** The one word of a search that may as well begin an id; "" where there is none. */
export function maybeId(found: Search): string {
  const [word = ""] = found.words;
  return found.words.length === 1 && !found.prefix && NAME.test(word) ? word : "";
}
