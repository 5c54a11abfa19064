import { useSchema } from "../api/hooks";
import { Fact } from "../components/Fact";
import { Timestamp } from "../components/Timestamp";
import { countsDeviations, formatNumber } from "../format";
import { valueText } from "../measure";
import type { Alert } from "./types";

interface Props {
  alert: Alert;
  baseline: NonNullable<Alert["baseline"]>;
}

/** The current and the expected value of an alert, their ratio, and the time of the baseline. */
export function BaselineFacts({ alert, baseline }: Props) {
  const expected = Number(baseline.value);
  const rule = alert.violatedRule;
  const fields = useSchema().data?.fields ?? [];
  const ratio = Number(alert.triggeringValue) / expected;
  return (
    <>
      <Fact name="Current value">{valueText(rule, alert.triggeringValue, fields)}</Fact>
      <Fact name={countsDeviations(alert.violatedRule) ? "Mean of baseline" : "Expected value"}>
        {valueText(rule, baseline.value, fields)}
      </Fact>
      {expected > 0 && <Fact name="Factor">{formatNumber(Math.round(ratio * 10) / 10)}</Fact>}
      <Fact name="Baseline">
        <Timestamp ms={baseline.windowStart} /> to <Timestamp ms={baseline.windowEnd} />
      </Fact>
      <Fact name="Transactions in baseline">{formatNumber(baseline.count)}</Fact>
    </>
  );
}
