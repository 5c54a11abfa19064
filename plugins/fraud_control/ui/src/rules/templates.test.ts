import { expect, test } from "vitest";
import { findTemplate, TEMPLATES, templatePath } from "./templates";

test("each template has its own name, one sentence and a rule without id and state", () => {
  expect(new Set(TEMPLATES.map((template) => template.name)).size).toBe(TEMPLATES.length);
  for (const template of TEMPLATES) {
    expect(template.description).toMatch(/^[A-Z].*\.$/u);
    expect(template.document).toMatchObject({ name: template.name });
    expect(template.document).not.toHaveProperty("ruleId");
    expect(template.document).not.toHaveProperty("ruleState");
    expect(findTemplate(new URL(templatePath(template), "http://x").searchParams.get("template"))).toBe(template);
  }
  expect(findTemplate("no such template")).toBeNull();
});
