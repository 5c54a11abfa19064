/** The properties of a legend in the order of the chart's series. By default, recharts sorts a legend by name. */
export const SERIES_ORDER = { itemSorter: null };
