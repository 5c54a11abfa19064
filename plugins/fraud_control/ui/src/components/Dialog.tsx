import { Modal, type ModalProps } from "@mantine/core";
import { useEffect, useState } from "react";

interface Props extends Omit<ModalProps, "opened" | "onClose"> {
  close: () => void;
}

/**
 * A dialog that is open as long as it is mounted. At its end the focus returns to the element that opened it. If that
 * element is gone, because the change removed its button, the focus moves to the content of the page.
 */
export function Dialog({ close, ...props }: Props) {
  const [opener] = useState(() => document.activeElement);
  useEffect(() => () => void setTimeout(() => returnFocus(opener)), [opener]);
  return <Modal opened onClose={close} returnFocus={false} {...props} />;
}

function returnFocus(opener: Element | null): void {
  if (document.activeElement !== null && document.activeElement !== document.body) return;
  const target = opener?.isConnected && opener !== document.body ? opener : document.getElementById("content");
  if (target instanceof HTMLElement) target.focus({ preventScroll: true });
}
