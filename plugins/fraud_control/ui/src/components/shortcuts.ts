import { useEffect, useRef, useSyncExternalStore } from "react";

const STORED = "fraud-shortcuts";
const OFF = "off";
const listeners = new Set<() => void>();

/** A key, its name in the help, and its action. Without an action, the browser handles the key. */
export interface Shortcut {
  key: string;
  name: string;
  run?: () => void;
}

/** Whether single-key shortcuts are on, and a function to turn them on or off. The browser remembers the choice. */
export function useShortcutsOn(): [boolean, (on: boolean) => void] {
  const on = useSyncExternalStore(subscribe, isOn);
  return [on, setOn];
}

/** Runs the action of a key, unless the user types a text, a dialog is open, or shortcuts are off. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  }, [shortcuts]);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || !isOn()) return;
      if (isTyping(event.target) || document.querySelector("[role=dialog]")) return;
      const shortcut = latest.current.find(({ key }) => key === event.key);
      if (!shortcut?.run) return;
      event.preventDefault();
      shortcut.run();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

/** Moves the focus by `step` elements within those that a selector finds. */
export function moveFocus(selector: string, step: number): void {
  const found = [...document.querySelectorAll<HTMLElement>(selector)];
  const current = found.findIndex((each) => each === document.activeElement);
  found[current < 0 ? 0 : Math.min(Math.max(current + step, 0), found.length - 1)]?.focus();
}

/** The value of a data attribute of the focused element, undefined if it has none. */
export function focusedValue(name: string): string | undefined {
  return document.activeElement instanceof HTMLElement ? document.activeElement.dataset[name] : undefined;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("input:not([type=checkbox]), textarea, select") !== null;
}

function isOn(): boolean {
  return window.localStorage.getItem(STORED) !== OFF;
}

function setOn(on: boolean): void {
  if (on) window.localStorage.removeItem(STORED);
  else window.localStorage.setItem(STORED, OFF);
  listeners.forEach((listener) => listener());
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
