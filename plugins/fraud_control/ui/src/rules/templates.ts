import type { RuleDocument } from "../api/types";
import templates from "./templates.json";

/** A rule of the cookbook. `document` has no id and no state. */
export interface Template {
  section: string;
  name: string;
  description: string;
  document: RuleDocument;
}

export const TEMPLATES: readonly Template[] = templates;

/** The address of a new rule that starts from a template. */
export function templatePath({ name }: Template): string {
  return `/rules/new?${new URLSearchParams({ template: name }).toString()}`;
}

/** The template with a name; null for an unknown name. */
export function findTemplate(name: string | null): Template | null {
  return TEMPLATES.find((template) => template.name === name) ?? null;
}
