import { Button, Popover, Switch } from "@mantine/core";
import { IconKeyboard } from "@tabler/icons-react";
import { type Shortcut, useShortcutsOn } from "./shortcuts";

/** A button that lists the shortcuts of the page, with a switch to turn them off. */
export function ShortcutsHelp({ shortcuts }: { shortcuts: readonly Shortcut[] }) {
  const [isOn, setOn] = useShortcutsOn();
  return (
    <Popover position="bottom-end" trapFocus width={260}>
      <Popover.Target>
        <Button variant="default" leftSection={<IconKeyboard size={14} aria-hidden />}>
          Shortcuts
        </Button>
      </Popover.Target>
      <Popover.Dropdown aria-label="Keyboard shortcuts">
        <dl className="shortcuts">
          {shortcuts.map(({ key, name }) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{name}</dd>
            </div>
          ))}
        </dl>
        <Switch
          label="Single-key shortcuts"
          checked={isOn}
          onChange={(event) => setOn(event.currentTarget.checked)}
          mt="sm"
        />
      </Popover.Dropdown>
    </Popover>
  );
}
