/** The parts of an OpenAPI document that the page shows. */
export interface ApiDescription {
  servers: { url: string }[];
  paths: Record<string, Record<string, OperationObject>>;
  components: { schemas: Record<string, SchemaObject> };
}

interface OperationObject {
  tags?: string[];
  description?: string;
  parameters?: ParameterObject[];
  requestBody?: { content: Record<string, { schema?: SchemaObject }> };
  responses: Record<string, ResponseObject>;
  "x-role"?: string;
}

interface ResponseObject {
  description?: string;
  content?: Record<string, { schema?: SchemaObject }>;
}

interface ParameterObject {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: SchemaObject;
}

/** A JSON schema, as far as the page shows it. */
export interface SchemaObject {
  $ref?: string;
  type?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  items?: SchemaObject;
  anyOf?: SchemaObject[];
  properties?: Record<string, SchemaObject>;
  additionalProperties?: SchemaObject | boolean;
  required?: string[];
}

export interface Parameter {
  name: string;
  place: string;
  type: string;
  required: boolean;
  description: string;
}

/** A request of the API. `role` is the lowest role that may send it. */
export interface Operation {
  tag: string;
  method: string;
  path: string;
  role: string;
  description: string;
  parameters: Parameter[];
  body: SchemaObject | null;
  answers: { status: string; type: string; schema: SchemaObject | null }[];
}

/** All requests, in the order of the document. */
export function operationsOf(document: ApiDescription): Operation[] {
  const prefix = document.servers[0]?.url ?? "";
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => operationOf(method, prefix + path, operation)),
  );
}

function operationOf(method: string, path: string, operation: OperationObject): Operation {
  const role = operation["x-role"] ?? "none";
  return {
    tag: operation.tags?.[0] ?? "other",
    method: method.toUpperCase(),
    path,
    role: role === "none" ? "any user" : role,
    description: operation.description ?? "",
    parameters: (operation.parameters ?? []).map((each) => ({
      name: each.name,
      place: each.in,
      type: typeText(each.schema),
      required: each.required ?? false,
      description: each.description ?? each.schema?.description ?? "",
    })),
    body: Object.values(operation.requestBody?.content ?? {})[0]?.schema ?? null,
    answers: Object.entries(operation.responses).flatMap(([status, answer]) => {
      const [content] = Object.entries(answer.content ?? {});
      return [{ status, type: content?.[0] ?? "no content", schema: content?.[1].schema ?? null }];
    }),
  };
}

/** The name of a referenced schema. */
export function nameOf(schema: SchemaObject): string | null {
  return schema.$ref?.split("/").at(-1) ?? null;
}

/** A type in one line: "RuleRow[]", "integer | null", "WAITING | FAILED". */
export function typeText(schema: SchemaObject | undefined): string {
  if (!schema) return "any";
  const name = nameOf(schema);
  if (name !== null) return name;
  if (schema.anyOf) return schema.anyOf.map(typeText).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map(String).join(" | ");
  if (schema.type === "array") return `${typeText(schema.items)}[]`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object")
    return `{ name: ${typeText(schema.additionalProperties)} }`;
  return schema.type ?? "any";
}

/** The names of all schemas that a schema uses, directly and by others, in the order of their first use. */
export function usedSchemas(schema: SchemaObject | null, schemas: Record<string, SchemaObject>): string[] {
  const found: string[] = [];
  const waiting = schema ? [schema] : [];
  for (let each = waiting.shift(); each !== undefined; each = waiting.shift()) {
    const name = nameOf(each);
    if (name !== null && !found.includes(name)) {
      found.push(name);
      const target = schemas[name];
      if (target) waiting.push(target);
    }
    const { items, anyOf = [], properties = {}, additionalProperties } = each;
    if (items) waiting.push(items);
    waiting.push(...anyOf, ...Object.values(properties));
    if (typeof additionalProperties === "object") waiting.push(additionalProperties);
  }
  return found;
}
