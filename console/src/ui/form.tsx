// A form for a JSON schema. What it makes is JSON text: numbers stay as they were written.
import { useMemo, useState } from "preact/hooks";
import { emptyEntry, type Entry, type Field, formOf, jsonOf, type Member } from "../model/schema.ts";

export interface SchemaForm {
  field: Field;
  entry: Entry;
  setEntry: (entry: Entry) => void;
  asJson: string | undefined;
  setAsJson: (text: string | undefined) => void;
  /** Returns the JSON text. Throws an error that says what is wrong. */
  text: () => string;
}

/** The state of a form. */
export function useSchemaForm(schema: string): SchemaForm {
  const field = useMemo(() => formOf(schema), [schema]);
  const [state, setState] = useState({ field, entry: emptyEntry(field) });
  const [asJson, setAsJson] = useState<string>();
  const entry = state.field === field ? state.entry : emptyEntry(field);
  return {
    field,
    entry,
    setEntry: (next) => setState({ field, entry: next }),
    asJson,
    setAsJson,
    text: () => (asJson === undefined ? jsonOf(field, entry) : jsonOf({ kind: "json" }, asJson)),
  };
}

export function SchemaFields({ form, label }: { form: SchemaForm; label: string }) {
  const plain = form.field.kind === "json";
  const toJson = () => {
    let text = "";
    try {
      text = jsonOf(form.field, form.entry);
    } catch {
      // What was entered so far makes no JSON; the person begins with nothing.
    }
    form.setAsJson(text);
  };
  return (
    <div class="form">
      {form.asJson !== undefined ? (
        <JsonField label={`${label}, as JSON`} value={form.asJson} set={form.setAsJson} />
      ) : (
        <FieldView field={form.field} label={label} entry={form.entry} set={form.setEntry} required />
      )}
      {!plain && (
        <div>
          <button
            type="button"
            class="small"
            onClick={() => (form.asJson === undefined ? toJson() : form.setAsJson(undefined))}
          >
            {form.asJson === undefined ? "Write JSON instead" : "Back to the form"}
          </button>
        </div>
      )}
    </div>
  );
}

interface Props {
  field: Field;
  label: string;
  entry: Entry;
  set: (entry: Entry) => void;
  required: boolean;
  description?: string;
}

function FieldView(props: Props) {
  const { field, entry, set, label } = props;
  switch (field.kind) {
    case "object": {
      const entries = entry as Record<string, Entry>;
      return (
        <fieldset>
          <legend>{label}</legend>
          {props.description && <small>{props.description}</small>}
          {field.members.map((one: Member) => (
            <FieldView
              key={one.name}
              field={one.field}
              label={one.title}
              description={one.description}
              required={one.required}
              entry={entries[one.name] ?? emptyEntry(one.field)}
              set={(next) => set({ ...entries, [one.name]: next })}
            />
          ))}
        </fieldset>
      );
    }
    case "list":
      return <ListView {...props} field={field} />;
    case "choice":
      return (
        <Labelled {...props}>
          <select value={entry as string} onChange={(event) => set(event.currentTarget.value)}>
            <option value="">–</option>
            {field.choices.map((one) => (
              <option key={one.json} value={one.json}>
                {one.label}
              </option>
            ))}
          </select>
        </Labelled>
      );
    case "boolean":
      return (
        <Labelled {...props}>
          <select value={entry as string} onChange={(event) => set(event.currentTarget.value)}>
            <option value="">–</option>
            <option value="true">yes</option>
            <option value="false">no</option>
          </select>
        </Labelled>
      );
    case "number":
    case "integer":
      return (
        <Labelled {...props}>
          <input
            inputMode={field.kind === "integer" ? "numeric" : "decimal"}
            value={entry as string}
            onInput={(event) => set(event.currentTarget.value)}
          />
        </Labelled>
      );
    case "text":
      return (
        <Labelled {...props}>
          {field.long ? (
            <textarea value={entry as string} onInput={(event) => set(event.currentTarget.value)} />
          ) : (
            <input value={entry as string} onInput={(event) => set(event.currentTarget.value)} />
          )}
        </Labelled>
      );
    case "json":
      return <JsonField label={`${label}, as JSON`} value={entry as string} set={set} />;
  }
}

function Labelled(props: Props & { children: preact.ComponentChildren }) {
  return (
    <label class="field">
      <span>
        {props.label}
        {!props.required && <small> (optional)</small>}
      </span>
      {props.description && <small>{props.description}</small>}
      {props.children}
    </label>
  );
}

export function JsonField(props: { label: string; value: string; set: (value: string) => void }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <textarea
        value={props.value}
        spellcheck={false}
        placeholder={'{"name": "Ada"}'}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </label>
  );
}

function ListView(props: Props & { field: Extract<Field, { kind: "list" }> }) {
  const { field, set, label } = props;
  const items = props.entry as Entry[];
  return (
    <fieldset>
      <legend>{label}</legend>
      {props.description && <small>{props.description}</small>}
      {items.map((item, index) => (
        <div class="row" key={index}>
          <span class="grow">
            <FieldView
              field={field.item}
              label={`${label} ${index + 1}`}
              required
              entry={item}
              set={(next) => set(items.map((one, at) => (at === index ? next : one)))}
            />
          </span>
          <button
            type="button"
            class="small"
            aria-label={`Remove ${label} ${index + 1}`}
            onClick={() => set(items.filter((_, at) => at !== index))}
          >
            ✕
          </button>
        </div>
      ))}
      <div>
        <button type="button" class="small" onClick={() => set([...items, emptyEntry(field.item)])}>
          Add
        </button>
      </div>
    </fieldset>
  );
}
