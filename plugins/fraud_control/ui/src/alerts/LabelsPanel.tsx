import { Button, FileButton, Group, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { useApiMutation, useCan } from "../api/hooks";
import { get } from "../api/http";
import { keys } from "../api/keys";
import type { LabelCounts, LabelFile, LabelSources, LabelUpload } from "../api/types";
import { ErrorAlert } from "../components/ErrorAlert";
import { QueryResult } from "../components/QueryResult";
import { RowTable } from "../components/RowTable";
import { Timestamp } from "../components/Timestamp";
import { formatNumber } from "../format";
import { notifyError } from "../notifications";

const NAMES: Record<LabelCounts["source"], string> = {
  mark: "Marks on alerts",
  file: "Uploaded files",
  topic: "Topic of labels",
};

/** The labels of payments that what-ifs use, by source, and the upload of a file. */
export function LabelsPanel() {
  const labels = useQuery({ queryKey: keys.labels, queryFn: ({ signal }) => get<LabelSources>("/labels", signal) });
  const can = useCan();
  return (
    <section className="panel" aria-label="Labels">
      <h2>Labels</h2>
      <Text size="sm" mb="xs">
        A label says that a payment was fraud, or that it was not. The newest label of a payment counts.
      </Text>
      <QueryResult query={labels}>
        {({ sources, unreadable }) => (
          <>
            <RowTable label="Labels by source" columns={["Source", "Fraud", "Not fraud", "Newest"]}>
              {sources.map((each) => (
                <Table.Tr key={`${each.source} ${each.origin}`}>
                  <Table.Td>
                    {NAMES[each.source]}
                    {each.origin && `: ${each.origin}`}
                  </Table.Td>
                  <Table.Td className="number">{formatNumber(each.fraud)}</Table.Td>
                  <Table.Td className="number">{formatNumber(each.notFraud)}</Table.Td>
                  <Table.Td>{each.newest === null ? "–" : <Timestamp ms={each.newest} />}</Table.Td>
                </Table.Tr>
              ))}
            </RowTable>
            {unreadable > 0 && <Text size="sm">Skipped records of the topic: {formatNumber(unreadable)}</Text>}
          </>
        )}
      </QueryResult>
      {can("mark") && <Upload />}
    </section>
  );
}

function Upload() {
  const resetFileInput = useRef<() => void>(null);
  const upload = useApiMutation<LabelFile, LabelUpload>((body) => ({ path: "/labels", method: "POST", body }), {
    invalidates: [keys.labels, keys.quality],
    quiet: true,
  });
  const choose = (file: File | null) => {
    // A browser does not report the same file twice. The reset lets the user choose a corrected file again.
    resetFileInput.current?.();
    void file?.text().then((content) => {
      upload.mutate({ name: file.name, format: formatOf(file.name), content });
    }, notifyError);
  };
  return (
    <>
      <Group mt="xs" gap="sm">
        <FileButton onChange={choose} resetRef={resetFileInput} accept=".csv,.jsonl,.ndjson,text/csv">
          {(props) => (
            <Button variant="default" loading={upload.isPending} {...props}>
              Upload file of labels …
            </Button>
          )}
        </FileButton>
        <Text size="sm" c="dimmed">
          CSV with a header, or JSON Lines: transaction (or alertId), label (FRAUD or NOT_FRAUD); optionally time,
          source
        </Text>
      </Group>
      {upload.error && <ErrorAlert error={upload.error} />}
      {upload.data && (
        <Text size="sm" role="status" mt="xs">
          {uploadText(upload.data.body)}
        </Text>
      )}
    </>
  );
}

function formatOf(name: string): LabelFile["format"] {
  return name.toLowerCase().endsWith(".csv") ? "csv" : "jsonl";
}

function uploadText({ fraud, notFraud, skipped }: LabelUpload): string {
  const saved = `Saved: ${formatNumber(fraud)} fraud, ${formatNumber(notFraud)} not fraud.`;
  const reasons = Object.entries(skipped).map(([reason, count]) => `${formatNumber(count)} ${reason}`);
  return reasons.length > 0 ? `${saved} Skipped lines: ${reasons.join(", ")}.` : saved;
}
