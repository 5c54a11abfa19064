const Z_95 = 1.959_964;

/** The 95% interval of a share (Wilson's score interval), as fractions. It is meaningful for few samples too. */
export function precisionInterval(hits: number, total: number): [number, number] {
  const share = hits / total;
  const square = Z_95 ** 2;
  const center = (share + square / (2 * total)) / (1 + square / total);
  const half = (Z_95 / (1 + square / total)) * Math.sqrt((share * (1 - share)) / total + square / (4 * total ** 2));
  return [Math.max(0, center - half), Math.min(1, center + half)];
}
