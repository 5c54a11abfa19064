import { TextInput, type TextInputProps } from "@mantine/core";

interface Props extends Omit<TextInputProps, "onChange" | "value" | "label"> {
  comment: string;
  change: (comment: string) => void;
  /** The change becomes a request. The approver decides by its reason, so the browser requires one. */
  asksApproval?: boolean;
}

/** The comment of a change, or the reason of a request. */
export function CommentInput({ comment, change, asksApproval = false, ...props }: Props) {
  return (
    <TextInput
      {...props}
      label={asksApproval ? "Reason" : "Comment"}
      required={asksApproval}
      {...(asksApproval ? { pattern: ".*\\S.*", title: "The approver decides by the reason" } : {})}
      value={comment}
      maxLength={500}
      onChange={(event) => change(event.currentTarget.value)}
    />
  );
}
