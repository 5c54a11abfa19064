import { ActionIcon } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { IconCheck, IconCopy } from "@tabler/icons-react";

/** Copies a value, such as a long id. Browsers offer no clipboard on pages without TLS, except on localhost. */
export function CopyButton({ name, value }: { name: string; value: string }) {
  const clipboard = useClipboard();
  if (!window.isSecureContext) return null;
  return (
    <ActionIcon
      size="sm"
      variant="subtle"
      color="gray"
      ml={4}
      aria-label={clipboard.copied ? `${name} copied` : `Copy ${name}`}
      title={`Copy ${name}`}
      onClick={() => clipboard.copy(value)}
    >
      {clipboard.copied ? <IconCheck size={14} aria-hidden /> : <IconCopy size={14} aria-hidden />}
    </ActionIcon>
  );
}
