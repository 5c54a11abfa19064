import { Button, SimpleGrid, Text } from "@mantine/core";
import { Link } from "react-router";
import { useCan } from "../api/hooks";
import { PageHeader, usePageTitle } from "../components/PageHeader";
import { RuleText } from "../components/RuleText";
import { TEMPLATES, templatePath } from "./templates";

const SECTIONS = [...new Set(TEMPLATES.map((template) => template.section))];

/** The gallery of templates: the rules of the cookbook, to start a new rule from. */
export default function TemplatesPage() {
  usePageTitle("Templates");
  const can = useCan();
  return (
    <>
      <PageHeader title="Templates" subtitle="Start a new rule from one of these. Adapt its limit and window." />
      {SECTIONS.map((section) => (
        <section key={section} aria-label={section} style={{ marginBottom: "1.5rem" }}>
          <h2>{section}</h2>
          <SimpleGrid cols={{ base: 1, sm: 2, lg: 3 }} spacing="sm">
            {TEMPLATES.filter((template) => template.section === section).map((template) => (
              <article key={template.name} className="panel" style={{ display: "flex", flexDirection: "column" }}>
                <h3 style={{ margin: 0 }}>{template.name}</h3>
                <Text size="sm" my="xs" style={{ flex: 1 }}>
                  {template.description}
                </Text>
                <Text size="sm" c="dimmed" mb="xs">
                  <RuleText rule={template.document} />
                </Text>
                {can("draft") && (
                  <Button
                    component={Link}
                    variant="default"
                    to={templatePath(template)}
                    aria-label={`Use template ${template.name}`}
                  >
                    Use template
                  </Button>
                )}
              </article>
            ))}
          </SimpleGrid>
        </section>
      ))}
    </>
  );
}
