import { formatNumber } from "../format";
import { precisionInterval } from "../precision";

const FEW_MARKS = 10;

/** The share of frauds among the marked alerts: as a fraction of few marks, else in percent with its interval. */
export function Precision({ fraud, notFraud }: { fraud: number; notFraud: number }) {
  const marked = fraud + notFraud;
  if (marked === 0) return <span className="dimmed">–</span>;
  if (marked < FEW_MARKS) {
    return (
      <span className="number dimmed" title={`${fraud} of ${marked} marked alerts are fraud: too few for a percentage`}>
        {fraud}/{marked}
      </span>
    );
  }
  const [low, high] = precisionInterval(fraud, marked);
  const percent = (share: number) => Math.round(share * 100);
  return (
    <span className="number" title={`${fraud} of ${marked} marked alerts are fraud. 95% interval in brackets.`}>
      {percent(fraud / marked)} %{" "}
      <span className="dimmed">
        ({percent(low)}–{percent(high)} %)
      </span>
    </span>
  );
}

interface LabelPrecisionProps {
  labels: { notFraud: number; caught: number; falseAlerts: number };
  fires: number;
}

/** The precision by labels. Labels that name frauds only give its lower bound, the share among all alerts. */
export function LabelPrecision({ labels: { notFraud, caught, falseAlerts }, fires }: LabelPrecisionProps) {
  if (notFraud > 0 || caught === 0) return <Precision fraud={caught} notFraud={falseAlerts} />;
  return (
    <span className="number" title="No label says that a payment was no fraud. Alerts without a label may be fraud.">
      at least {Math.floor((100 * caught) / fires)} %{" "}
      <span className="dimmed">
        ({formatNumber(caught)} of {formatNumber(fires)} alerts)
      </span>
    </span>
  );
}
