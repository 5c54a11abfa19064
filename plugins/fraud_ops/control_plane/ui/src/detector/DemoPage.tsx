import { Button, Group, NumberInput, Slider, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useCan, useChange } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Demo, PlantedFraud } from "../api/types";
import { At } from "../parts/At";
import { Head, useTitle } from "../parts/Head";
import { Shown } from "../parts/Told";

const ABOUT: Record<string, string> = {
  "emptied-account": "One payer moves more than 20,000 to one beneficiary, in four payments.",
  "huge-payment": "A single payment far above all others.",
  "mule-fan-out": "One payer spreads 1,000 to 1,900 each over seven beneficiaries.",
  "scripted-payer": "110 small payments of one payer within five seconds.",
  "cash-collector": "One beneficiary is paid in cash by several payers, far more than usual.",
  "structured-payments": "Payments just below 10,000 from several payers to one beneficiary.",
  "tested-cards": "A dozen card payments below 2.00.",
};

/** The demo's traffic: how fast it comes, and a fraud to put into it. */
export default function DemoPage() {
  useTitle("Demo");
  const demo = useQuery({ queryKey: keys.demo, queryFn: ({ signal }) => get<Demo>("/demo", signal) });
  return (
    <>
      <Head title="Demo" about="This traffic is made up. Plant a fraud, and watch it under Alerts." />
      <Shown of={demo}>
        {(data) => (
          <div style={{ display: "grid", gap: "1rem" }}>
            <Speed key={data.perS} demo={data} />
            <Plant patterns={data.patterns} />
          </div>
        )}
      </Shown>
    </>
  );
}

function Speed({ demo }: { demo: Demo }) {
  const can = useCan();
  const [perS, setPerS] = useState(demo.perS);
  const set = useChange<number, Demo>((value) => ({ path: "/demo/speed", method: "POST", body: { perS: value } }), {
    said: "The traffic follows",
    renews: keys.demo,
  });
  return (
    <section className="panel" aria-label="Speed">
      <h2>Transactions a second</h2>
      <Group gap="lg">
        <Slider
          style={{ flex: "1 1 14rem" }}
          min={0}
          max={demo.maxPerS}
          step={Math.max(1, Math.round(demo.maxPerS / 100))}
          value={perS}
          onChange={setPerS}
          onChangeEnd={(value) => set.mutate(value)}
          disabled={!can("steerDemo")}
          thumbLabel="Transactions a second"
          label={null}
        />
        <NumberInput
          aria-label="Transactions a second, exactly"
          min={0}
          max={demo.maxPerS}
          value={perS}
          onChange={(value) => setPerS(Number(value) || 0)}
          onBlur={() => {
            if (perS !== demo.perS) set.mutate(perS);
          }}
          disabled={!can("steerDemo")}
          w="7rem"
        />
        <Button variant="default" disabled={!can("steerDemo")} onClick={() => set.mutate(0)}>
          Stand still
        </Button>
      </Group>
    </section>
  );
}

function Plant({ patterns }: { patterns: readonly string[] }) {
  const can = useCan();
  const [planted, setPlanted] = useState<(PlantedFraud & { at: number })[]>([]);
  const plant = useChange<string, PlantedFraud>((pattern) => ({
    path: "/demo/fraud",
    method: "POST",
    body: { pattern },
  }));
  return (
    <section className="panel" aria-label="Frauds">
      <h2>Plant a fraud</h2>
      <ul
        style={{
          listStyle: "none",
          margin: 0,
          padding: 0,
          display: "grid",
          gridTemplateColumns: "repeat(auto-fill, minmax(16rem, 1fr))",
          gap: "0.75rem",
        }}
      >
        {patterns.map((pattern) => (
          <li
            key={pattern}
            className="panel"
            style={{ display: "flex", flexDirection: "column", gap: "0.5rem", justifyContent: "space-between" }}
          >
            <div>
              <strong>{pattern.replaceAll("-", " ")}</strong>
              <Text size="sm" c="dimmed">
                {ABOUT[pattern] ?? ""}
              </Text>
            </div>
            <Button
              variant="default"
              aria-label={`Plant ${pattern.replaceAll("-", " ")}`}
              disabled={!can("steerDemo") || plant.isPending}
              onClick={() =>
                plant.mutate(pattern, {
                  onSuccess: ({ body }) => setPlanted((old) => [{ ...body, at: Date.now() }, ...old].slice(0, 20)),
                })
              }
            >
              Plant it
            </Button>
          </li>
        ))}
      </ul>
      <div role="status">
        {planted.length > 0 && (
          <ul>
            {planted.map((fraud) => (
              <li key={fraud.label}>
                <At ms={fraud.at} /> {fraud.pattern.replaceAll("-", " ")} ({fraud.label}) is on its way:{" "}
                <Link to="/alerts">see the alerts</Link>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}
