import { formatNumber, formatPercent } from "../format";
import { precisionInterval } from "../precision";

const FEW_LABELS = 10;

interface Props {
  fraud: number;
  notFraud: number;
  /** All payments (or alerts), with a label or without. */
  of?: number;
}

/** The share of frauds among the labelled payments, and the share without a label. */
export function Precision({ fraud, notFraud, of = 0 }: Props) {
  const labelled = fraud + notFraud;
  return (
    <>
      <LabelledShare fraud={fraud} labelled={labelled} />
      {of > 0 && <div className="dimmed small">{formatPercent(Math.max(0, 1 - labelled / of))} unlabelled</div>}
    </>
  );
}

/** As a fraction of few labels, else in percent with its interval. */
function LabelledShare({ fraud, labelled }: { fraud: number; labelled: number }) {
  if (labelled === 0) return <span className="dimmed">–</span>;
  if (labelled < FEW_LABELS) {
    return (
      <span className="number dimmed" title={`${fraud} of ${labelled} labelled are fraud: too few for a percentage`}>
        {fraud}/{labelled}
      </span>
    );
  }
  const [low, high] = precisionInterval(fraud, labelled);
  const percent = (share: number) => Math.round(share * 100);
  return (
    <span className="number" title={`${fraud} of ${labelled} labelled are fraud. 95% interval in brackets.`}>
      {percent(fraud / labelled)} %{" "}
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
