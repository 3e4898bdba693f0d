// The service: what the server is and promises, what is connected, and what happens.
import { useEffect, useMemo } from "preact/hooks";
import { api } from "../api/client.ts";
import { COUNT_MAX, Pulse, SAMPLE_MS, type Series } from "../api/pulse.ts";
import type { GetServerInfoResponse } from "../gen/stepwell/v1/orchestrator_pb.ts";
import { Durability, RunStatus } from "../gen/stepwell/v1/types_pb.ts";
import { ms, number, span, word } from "../model/text.ts";
import { Empty, Problems, StatusPill, useLoad, useTitle } from "../ui/parts.tsx";
import { useChanges } from "../ui/store.ts";
import { Connected } from "./connected.tsx";

const SURVIVES: Record<Durability, string> = {
  [Durability.UNSPECIFIED]: "",
  [Durability.VOLATILE]: "nothing: it is gone with the process",
  [Durability.PROCESS]: "a kill of every process of the service and of the store",
  [Durability.POWER]: "a power cut",
  [Durability.NODE]: "the loss of the machine",
};

export function ServicePage() {
  const info = useLoad("info", async () => ({ server: await api.getServerInfo({}), asked: Date.now() }));
  const pulse = useMemo(() => new Pulse(), []);
  useEffect(() => pulse.start(), [pulse]);
  useChanges(pulse);
  useTitle("Service");
  return (
    <div class="page">
      <h1>Service</h1>
      <Problems of={info.problem} />
      {!info.value && !info.problem && <Empty>Asking the server …</Empty>}
      <Connected />
      <div class="tiles">
        {info.value && <Server info={info.value.server} asked={info.value.asked} />}
        <section class="card stack">
          <h2>Unfinished runs</h2>
          {pulse.counts.size > 0 && [...pulse.counts.values()].every((one) => !one) && (
            <small>
              There is none. <a href="/start">Start one</a>
            </small>
          )}
          <ul class="plain-list">
            {[...pulse.counts].map(([status, found]) => (
              <li key={status}>
                <a href={`/runs?status=${RunStatus[status]}`}>
                  <StatusPill status={status} /> {number(found)}
                  {found >= COUNT_MAX && " or more"}
                </a>
              </li>
            ))}
          </ul>
        </section>
        {pulse.series.map((one) => (
          <Chart key={one.title} series={one} />
        ))}
        {info.value && <Limits limits={info.value.server.limits} />}
      </div>
    </div>
  );
}

function Server({ info, asked }: { info: GetServerInfoResponse; asked: number }) {
  const { store } = info;
  const ahead = ms(info.serverTime) - asked;
  const facts: [string, string][] = [
    ["version", info.version],
    ["replica", info.replicaId],
    ["store", store?.driver ?? ""],
    ["durability", store ? word(Durability, store.durability) : ""],
    ["survives", store ? SURVIVES[store.durability] : ""],
    ["how", store?.detail ?? ""],
    ["schema", store?.schemaVersion ?? ""],
    ["clock", Math.abs(ahead) < 2_000 ? "as this browser's" : `${span(Math.abs(ahead))} ${ahead > 0 ? "ahead of" : "behind"} this browser's`],
    ["you are", info.subject],
    ["tenant", info.tenantId],
    ["you may", info.scopes.join(", ")],
  ];
  return (
    <section class="card stack">
      <h2>Server</h2>
      <dl class="facts">
        {facts.map(
          ([name, value]) =>
            value && (
              <>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </>
            ),
        )}
      </dl>
    </section>
  );
}

/** The last hour of a series. */
function Chart({ series }: { series: Series }) {
  const { samples, title } = series;
  const top = Math.max(1, ...samples);
  const last = samples.at(-1);
  const points = samples.map((value, index) => `${(100 * index) / Math.max(1, samples.length - 1)},${40 - (38 * value) / top}`);
  const line = points.length > 1 ? `M${points.join("L")}` : "";
  return (
    <section class="card stack">
      <h2>{title}</h2>
      {last === undefined ? (
        <small>Counting: the first number comes within ten seconds.</small>
      ) : (
        <p>
          <b>{number(last)}</b>{" "}
          <small>
            at most {number(Math.max(0, ...samples))} in the last {span(samples.length * SAMPLE_MS)}
          </small>
        </p>
      )}
      <svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={`${title}: ${last ?? 0} now`}>
        {line && (
          <>
            <path class="area" d={`${line}L100,40L0,40Z`} />
            <path d={line} />
          </>
        )}
      </svg>
    </section>
  );
}

function Limits({ limits }: { limits: Record<string, bigint> }) {
  return (
    <section class="card stack">
      <details>
        <summary>Limits of the protocol</summary>
        <dl class="facts mono">
          {Object.entries(limits)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([name, value]) => (
              <>
                <dt>{name}</dt>
                <dd>{number(value)}</dd>
              </>
            ))}
        </dl>
      </details>
    </section>
  );
}
