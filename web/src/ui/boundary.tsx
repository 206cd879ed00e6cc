// Shows what to do when a page cannot be shown: its script is missing, for example because detent was
// upgraded while the browser had the page open, or it has an error.
import { Component, type ReactNode } from "react";
import { Link } from "../router";
import { Title } from "./title";

interface Props {
  /** Another place is shown again. */
  place: string;
  children: ReactNode;
}

interface State {
  place: string;
  failed: boolean;
}

export class Boundary extends Component<Props, State> {
  override state: State = { place: this.props.place, failed: false };

  static getDerivedStateFromError(): Partial<State> {
    return { failed: true };
  }

  static getDerivedStateFromProps({ place }: Props, state: State): State | null {
    return place === state.place ? null : { place, failed: false };
  }

  override render(): ReactNode {
    if (!this.state.failed) return this.props.children;
    return (
      <>
        <Title>The page cannot be shown</Title>
        <div className="trouble" role="alert">
          <p>A part of the page is missing or has an error. detent may have been upgraded.</p>
          <button type="button" className="button primary" onClick={() => location.reload()}>
            Load the page again
          </button>
        </div>
        <p>
          <Link to="/">Open the inbox</Link>.
        </p>
      </>
    );
  }
}
