import { Group, Table, Text } from "@mantine/core";
import { useState } from "react";
import { Chip } from "../components/Chip";
import { RowTable } from "../components/RowTable";
import { type Operation, type SchemaObject, typeText, usedSchemas } from "./apiDescription";

interface Props {
  operation: Operation;
  schemas: Record<string, SchemaObject>;
}

/** A request in one line, which opens to its parameters, body and answers. */
export function OperationDetails({ operation, schemas }: Props) {
  const [open, setOpen] = useState(false);
  const { method, path, role } = operation;
  return (
    <details
      open={open}
      onToggle={(event) => setOpen(event.currentTarget.open)}
      style={{ borderTop: "1px solid var(--line)", padding: "0.4rem 0" }}
    >
      <summary className="wrap">
        <span className="code">
          <strong>{method}</strong> {path}
        </span>{" "}
        <Chip>{role}</Chip>
      </summary>
      {open && <OperationBody operation={operation} schemas={schemas} />}
    </details>
  );
}

function OperationBody({ operation, schemas }: Props) {
  const { method, path, description, parameters, body, answers } = operation;
  const shown = [body, ...answers.filter(({ status }) => status !== "default").map(({ schema }) => schema)];
  const names = [...new Set(shown.flatMap((schema) => usedSchemas(schema, schemas)))];
  return (
    <div style={{ padding: "0.5rem 0 0.5rem 1rem", display: "grid", gap: "0.75rem" }}>
      {description.split("\n\n").map((paragraph) => (
        <Text key={paragraph} size="sm">
          {paragraph}
        </Text>
      ))}
      {parameters.length > 0 && (
        <RowTable label={`Parameters of ${method} ${path}`} columns={["Parameter", "In", "Type", "Description"]}>
          {parameters.map((each) => (
            <Table.Tr key={each.name}>
              <Table.Td className="code">
                {each.name}
                {each.required && " (required)"}
              </Table.Td>
              <Table.Td>{each.place}</Table.Td>
              <Table.Td className="code wrap">{each.type}</Table.Td>
              <Table.Td className="wrap">{each.description}</Table.Td>
            </Table.Tr>
          ))}
        </RowTable>
      )}
      {body && (
        <Text size="sm">
          Body: <span className="code">{typeText(body)}</span>
        </Text>
      )}
      {answers.map(({ status, type, schema }) => (
        <Group key={status} gap="xs">
          <Chip>{status === "default" ? "Errors" : status}</Chip>
          <span className="code">{schema ? typeText(schema) : type}</span>
        </Group>
      ))}
      {names.map((name) => (
        <SchemaTable key={name} name={name} schema={schemas[name] ?? {}} />
      ))}
    </div>
  );
}

function SchemaTable({ name, schema }: { name: string; schema: SchemaObject }) {
  return (
    <section aria-label={name}>
      <h3 className="code">{name}</h3>
      <Text size="sm" c="dimmed">
        {schema.description ?? (schema.properties ? "" : typeText(schema))}
      </Text>
      {schema.properties && (
        <RowTable label={`Members of ${name}`} columns={["Member", "Type", "Description"]}>
          {Object.entries(schema.properties).map(([member, each]) => (
            <Table.Tr key={member}>
              <Table.Td className="code">
                {member}
                {!schema.required?.includes(member) && "?"}
              </Table.Td>
              <Table.Td className="code wrap">{typeText(each)}</Table.Td>
              <Table.Td className="wrap">{each.description ?? ""}</Table.Td>
            </Table.Tr>
          ))}
        </RowTable>
      )}
    </section>
  );
}
