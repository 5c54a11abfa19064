import { Button, Group, NumberInput, Slider, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { useApiMutation, useCan } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Demo, PlantedFraud } from "../api/types";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { QueryResult } from "../components/QueryResult";
import { Timestamp } from "../components/Timestamp";

const DESCRIPTIONS: Record<string, string> = {
  "emptied-account": "One payer moves more than 20,000 to one beneficiary in four payments.",
  "huge-payment": "A single payment far above all others.",
  "mule-fan-out": "One payer sends 1,000 to 1,900 to each of seven beneficiaries.",
  "scripted-payer": "One payer makes 110 small payments within five seconds.",
  "cash-collector": "Several payers send one beneficiary far more cash than usual.",
  "structured-payments": "Payments just below 10,000 from several payers to one beneficiary.",
  "tested-cards": "A dozen card payments below 2.00.",
  "tested-and-used-card": "Four card payments below 2.00, then one of 600 to 900.",
  "unusual-amount": "A dozen payments of 20 to 40, then one of 4,000 to 4,900.",
  "listed-mule": "A payment to an account on the list demo-mules.",
  "above-own-limit": "A payment above the payer's own limit in the map demo-limits.",
  "two-signals": "Payments to four beneficiaries, the last one with much cash: two signals hold.",
  "impossible-travel": "Two payments within seconds, in two distant cities.",
};

/** The demo's traffic: its rate, and frauds to plant. */
export default function DemoPage() {
  usePageTitle("Demo");
  const demo = useQuery({ queryKey: keys.demo, queryFn: ({ signal }) => get<Demo>("/demo", signal) });
  return (
    <>
      <PageHeader title="Demo" subtitle="Synthetic traffic. Plant a fraud and watch the Alerts page." />
      <QueryResult query={demo}>
        {(data) => (
          <div style={{ display: "grid", gap: "1rem" }}>
            <TrafficRate key={data.perS} demo={data} />
            <FraudPatterns patterns={data.patterns} />
          </div>
        )}
      </QueryResult>
    </>
  );
}

function TrafficRate({ demo }: { demo: Demo }) {
  const can = useCan();
  const [perS, setPerS] = useState(demo.perS);
  const setRate = useApiMutation<number, Demo>(
    (value) => ({ path: "/demo/speed", method: "POST", body: { perS: value } }),
    {
      successMessage: "Traffic rate changed",
      updates: keys.demo,
    },
  );
  return (
    <section className="panel" aria-label="Traffic rate">
      <h2>Transactions per second</h2>
      <Group gap="lg">
        <Slider
          style={{ flex: "1 1 14rem" }}
          min={0}
          max={demo.maxPerS}
          step={Math.max(1, Math.round(demo.maxPerS / 100))}
          value={perS}
          onChange={setPerS}
          onChangeEnd={(value) => setRate.mutate(value)}
          disabled={!can("steerDemo")}
          thumbLabel="Transactions per second"
          label={null}
        />
        <NumberInput
          aria-label="Transactions per second (exact value)"
          min={0}
          max={demo.maxPerS}
          value={perS}
          onChange={(value) => setPerS(Number(value) || 0)}
          onBlur={() => {
            if (perS !== demo.perS) setRate.mutate(perS);
          }}
          disabled={!can("steerDemo")}
          w="7rem"
        />
        <Button variant="default" disabled={!can("steerDemo")} onClick={() => setRate.mutate(0)}>
          Stop traffic
        </Button>
      </Group>
    </section>
  );
}

function FraudPatterns({ patterns }: { patterns: readonly string[] }) {
  const can = useCan();
  const [planted, setPlanted] = useState<(PlantedFraud & { at: number })[]>([]);
  const plant = useApiMutation<string, PlantedFraud>((pattern) => ({
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
                {DESCRIPTIONS[pattern] ?? ""}
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
              Plant
            </Button>
          </li>
        ))}
      </ul>
      <div role="status">
        {planted.length > 0 && (
          <ul>
            {planted.map((fraud) => (
              <li key={fraud.label}>
                <Timestamp ms={fraud.at} /> {fraud.pattern.replaceAll("-", " ")} ({fraud.label}) sent:{" "}
                <Link to="/alerts">Show alerts</Link>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}
