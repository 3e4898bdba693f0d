// A table of the user's, of which a long one is shown in part at first.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { number } from "../model/text.ts";

const ROWS_MAX = 100;

export function TableView({ head, rows }: { head: ComponentChildren[]; rows: ComponentChildren[][] }) {
  const [all, setAll] = useState(false);
  return (
    <div class="scroll data" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {head.map((one) => (
              <th scope="col">{one}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, all ? rows.length : ROWS_MAX).map((row) => (
            <tr>
              {row.map((one) => (
                <td>{one}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {!all && rows.length > ROWS_MAX && (
        <button type="button" class="small" onClick={() => setAll(true)}>
          Show all {number(rows.length)} rows
        </button>
      )}
    </div>
  );
}
