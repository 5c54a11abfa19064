import { Button, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { useLocation } from "react-router";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { Alarm, Alarms } from "../api/types";
import { airflowPath } from "../basePath";
import { Chip } from "../components/Chip";
import { EmptyState } from "../components/EmptyState";
import { QueryResult } from "../components/QueryResult";
import { ScrollableTable } from "../components/ScrollableTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { ALARMS } from "../outage/OpenAlarms";

const POLL_MS = 10_000;
const RECEIVERS: Record<string, string> = { fraud_webhook: "webhook", fraud_smtp: "mail" };
const COLUMNS = ["Severity", "Alarm", "Text", "First", "Last", "Messages", "State", "Sent to"];

/** The receivers of alarms and the recent alarms. Old alarms are dimmed, and only shown on request. */
export function AlarmsPanel() {
  const alarms = useQuery({
    queryKey: keys.alarms,
    queryFn: ({ signal }) => get<Alarms>("/alarms", signal),
    refetchInterval: POLL_MS,
  });
  const panel = useRef<HTMLElement>(null);
  const isWanted = useLocation().hash === `#${ALARMS}`;
  useEffect(() => {
    if (isWanted) panel.current?.scrollIntoView();
  }, [isWanted]);
  return (
    <section className="panel" aria-label="Alarms" id={ALARMS} ref={panel}>
      <h2>Alarms</h2>
      <QueryResult query={alarms}>
        {(data) => (
          <>
            <AlarmReceivers names={data.alarmReceivers} />
            <AlarmTables alarms={data.items} />
          </>
        )}
      </QueryResult>
    </section>
  );
}

/** The receivers of alarms. Without one, an alarm is only visible here and in Airflow's logs. */
function AlarmReceivers({ names }: { names: readonly string[] }) {
  return (
    <Text size="sm" mb={6}>
      {names.length > 0 ? (
        <>
          Alarm receivers: <strong>{receiverNames(names)}</strong>
        </>
      ) : (
        <>
          <Chip tone="warn">No receiver is configured</Chip> Set the connection{" "}
          <span className="code">fraud_webhook</span> or <span className="code">fraud_smtp</span> of the control plane.
        </>
      )}
    </Text>
  );
}

function AlarmTables({ alarms }: { alarms: readonly Alarm[] }) {
  const [withOld, setWithOld] = useState(false);
  const recent = alarms.filter((alarm) => !alarm.old);
  const old = alarms.filter((alarm) => alarm.old);
  return (
    <>
      {recent.length === 0 ? (
        <EmptyState>No alarm in the last 24 hours that has not been cleared</EmptyState>
      ) : (
        <AlarmTable label="Recent alarms" alarms={recent} />
      )}
      {old.length > 0 && (
        <Button variant="subtle" size="xs" mt={6} aria-expanded={withOld} onClick={() => setWithOld(!withOld)}>
          {withOld ? "Hide" : "Show"} cleared and old alarms ({formatNumber(old.length)})
        </Button>
      )}
      {withOld && <AlarmTable label="Cleared and old alarms" alarms={old} />}
    </>
  );
}

function AlarmTable({ label, alarms }: { label: string; alarms: readonly Alarm[] }) {
  return (
    <ScrollableTable label={label} columns={COLUMNS}>
      {alarms.map((alarm) => (
        <AlarmRow key={alarm.id} alarm={alarm} />
      ))}
    </ScrollableTable>
  );
}

function AlarmRow({ alarm }: { alarm: Alarm }) {
  const tone = alarm.old ? "quiet" : alarm.severity === "critical" ? "bad" : "warn";
  return (
    <Table.Tr className={alarm.old ? "old" : undefined}>
      <Table.Td>
        <Chip tone={tone}>{alarm.severity === "critical" ? "Critical" : "Warning"}</Chip>
      </Table.Td>
      <Table.Td>
        <a href={airflowPath(alarm.runbook)}>{alarm.name}</a>
        {alarm.part && <Text size="xs">{alarm.part}</Text>}
      </Table.Td>
      <Table.Td style={{ minWidth: "16rem" }} className="wrap">
        {alarm.said}
        {alarm.source && (
          <>
            {" "}
            <a href={airflowPath(alarm.source)}>Log</a>
          </>
        )}
      </Table.Td>
      <Table.Td>
        <Timestamp ms={alarm.first} />
      </Table.Td>
      <Table.Td>
        <Timestamp ms={alarm.last} />
      </Table.Td>
      <Table.Td className="number">{formatNumber(alarm.count)}</Table.Td>
      <Table.Td>
        <AlarmState alarm={alarm} />
      </Table.Td>
      <Table.Td>{alarm.receivers.length > 0 ? receiverNames(alarm.receivers) : "–"}</Table.Td>
    </Table.Tr>
  );
}

function AlarmState({ alarm }: { alarm: Alarm }) {
  if (alarm.cleared === null) return alarm.old ? "Old, end unknown" : "Not cleared";
  return (
    <>
      Cleared <Timestamp ms={alarm.cleared} />
    </>
  );
}

function receiverNames(names: readonly string[]): string {
  return names.map((name) => RECEIVERS[name] ?? name).join(", ");
}
