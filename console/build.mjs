// Bundles the console into a folder: node build.mjs OUT. `make console` calls it, after the protocol's
// TypeScript has been made.
import { build } from "esbuild";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";

/**
 * Writes the descriptions of the protocol as text of one byte a character, which compresses by a third better than base64,
 * and leaves out how protobuf writes JSON, because the page sends the binary form only.
 */
const smaller = {
  name: "smaller",
  setup(one) {
    one.onLoad({ filter: /\/gen\/.*_pb\.ts$/ }, async (file) => {
      const text = await readFile(file.path, "utf8");
      const raw = (base64) => JSON.stringify(Buffer.from(base64, "base64").toString("latin1"));
      const contents = text.replace(/fileDesc\("([^"]*)"/, (_, base64) => `fileDesc(btoa(${raw(base64)})`);
      return { contents, loader: "ts" };
    });
    one.onLoad({ filter: /@bufbuild\/protobuf\/dist\/esm\/to-json\.js$/ }, async (file) => {
      const text = await readFile(file.path, "utf8");
      const names = [...text.matchAll(/^export (?:async )?function (\w+)/gm)].map((found) => found[1]);
      const refused = (name) => `export function ${name}() { throw new Error("this page writes no JSON of protobuf's"); }`;
      return { contents: names.map(refused).join("\n") };
    });
  },
};

const out = path.resolve(process.argv[2] ?? "build/assets");
const common = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outdir: out,
  entryNames: "[name]-[hash]",
  legalComments: "none",
  charset: "utf8",
  plugins: [smaller],
  metafile: true,
  logLevel: "warning",
};

/** Bundles one entry and returns the name of what came of it, and the packages that are in it. */
async function bundle(entry, options = {}) {
  const { metafile } = await build({ ...common, ...options, entryPoints: [entry] });
  const [name] = Object.entries(metafile.outputs).find(([, one]) => one.entryPoint) ?? [];
  return { file: path.basename(name), inputs: Object.keys(metafile.inputs) };
}

/** Returns the licences of the bundled packages, one after the other. */
async function licences(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (found) packages.add(found[1]);
  }
  const line = "-".repeat(78);
  const texts = ["The console is made of Stepwell's own code and of these packages."];
  for (const name of [...packages].sort()) {
    const folder = path.join("node_modules", name);
    const about = JSON.parse(await readFile(path.join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
    const apache = about.license.includes("Apache-2.0");
    if (!file && !apache) throw new Error(`${name} has no licence file`);
    const text = file ? await readFile(path.join(folder, file), "utf8") : "The text of Apache-2.0 is at the end.";
    texts.push(`${name} ${about.version}, ${about.license}\n\n${text.trim()}`);
  }
  texts.push((await readFile("../LICENSE", "utf8")).trimEnd());
  return `${texts.join(`\n\n${line}\n\n`)}\n`;
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const style = await bundle("src/style.css");
const app = await bundle("src/main.tsx", {
  jsx: "automatic",
  jsxImportSource: "preact",
});
const page = await readFile("index.html", "utf8");
await writeFile(
  path.join(out, "index.html"),
  page.replace("APP_FILE", app.file).replace("STYLE_FILE", style.file),
);
await writeFile(path.join(out, "icon.svg"), await readFile("icon.svg"));
await writeFile(path.join(out, "LICENSES.txt"), await licences(app.inputs));
