import { Textarea } from "@mantine/core";

interface Props {
  comment: string;
  change: (comment: string) => void;
  mt?: string;
}

/** A comment on a case. */
export function CaseComment({ comment, change, mt = "0" }: Props) {
  return (
    <Textarea
      label="Comment"
      value={comment}
      maxLength={2_000}
      autosize
      minRows={2}
      maxRows={8}
      onChange={(event) => change(event.currentTarget.value)}
      mt={mt}
    />
  );
}
