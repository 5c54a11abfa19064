import { TextInput } from "@mantine/core";

/** The reason for a change of a list. */
export function CommentInput({ comment, change }: { comment: string; change: (comment: string) => void }) {
  return (
    <TextInput
      label="Comment"
      value={comment}
      maxLength={500}
      onChange={(event) => change(event.currentTarget.value)}
      mt="xs"
    />
  );
}
