import { Component, type ReactNode } from "react";
import { ErrorAlert } from "./ErrorAlert";

interface Props {
  children: ReactNode;
}

/** Catches an error of its children and shows it. A new `key` renders the children again. */
export class ErrorBoundary extends Component<Props, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error("unknown") };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <ErrorAlert
        title="This page crashed"
        error={this.state.error}
        // A reload also fetches the page's files again, in case a deployment has replaced them.
        retry={() => window.location.reload()}
      />
    );
  }
}
