import { Link } from "react-router";
import type { RuleUse } from "../api/types";
import { StateChip } from "./Chip";

/** Rules with links and states: those that name an item, or that a rule names. */
export function RuleUses({ rules }: { rules: readonly RuleUse[] }) {
  return (
    <ul style={{ margin: 0, paddingLeft: "1.1rem" }}>
      {rules.map((rule) => (
        <li key={rule.ruleId}>
          <Link to={`/rules/${rule.ruleId}`}>
            {rule.ruleId} {rule.name}
          </Link>{" "}
          <StateChip state={rule.state} />
        </li>
      ))}
    </ul>
  );
}
