import { Component, type ReactNode } from "react";
import { Trouble } from "./Told";

interface Props {
  children: ReactNode;
}

/** Says that what it surrounds has crashed, where there would be an empty page. A new `key` tries again. */
export class Crash extends Component<Props, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error("unknown") };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <Trouble
        title="This page crashed"
        error={this.state.error}
        // Also brings a page's files anew, where those of a version before are no longer there.
        retry={() => window.location.reload()}
      />
    );
  }
}
