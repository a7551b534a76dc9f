package stored

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/printable"
	"fairway/internal/store"
)

// editObject is the verb that lets a user edit an object.
func editObject(flags *cluster.Flags) *cobra.Command {
	k := &keeping{flags: flags, replace: true}
	cmd := &cobra.Command{
		Use:   "edit KIND NAME | KIND/NAME",
		Short: "Change an object with an editor, where control planes read it",
		Long: "Opens an object with $VISUAL or $EDITOR, and stores the edited text. The object is in a folder (--folder), in etcd " +
			"(--store) or in a cluster. If the text is invalid, it is opened again with the errors, until it " +
			"is right, comes back uncorrected or has been wrong 20 times; then it stays in a file. If the object has changed " +
			"meanwhile, nothing is written, and the edited text stays in a file.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := k.check(cmd, ""); err != nil {
				return err
			}
			w, err := k.wanted(args)
			switch {
			case err != nil:
				return err
			case len(w.keys) != 1:
				return errors.New("name one object: KIND NAME, or KIND/NAME")
			}
			return k.with(cmd.Context(), func(s place) error { return k.edit(cmd, s, w.keys[0]) })
		},
	}
	k.bind(cmd.Flags())
	return cmd
}

// note begins the lines at the top of a file that are for the editing user.
const note = "#: "

func (k *keeping) edit(cmd *cobra.Command, s place, key config.Key) error {
	item, there, err := s.Get(cmd.Context(), key)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("%s is not there", titled(key))
	}
	before, err := store.Shown(key, item.Text, item.Revision)
	if err != nil {
		before = item.Text // the stored text is not an object; here it can be repaired
	}
	f, err := os.CreateTemp("", "pilotctl-*.yaml")
	if err != nil {
		return err
	}
	path := f.Name()
	f.Close()
	text, notes := before, []string{"Change " + titled(key) + ". If you change nothing, nothing is written."}
	var refused [][]byte
	for {
		after, err := open(cmd, path, notes, text)
		if err != nil {
			return fmt.Errorf("%w; what there was is in %s", err, path)
		}
		if bytes.Equal(after, before) || len(bytes.TrimSpace(after)) == 0 {
			_ = os.Remove(path)
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s unchanged\n", titled(key))
			return err
		}
		wrong, err := k.store(cmd, s, key, item, after)
		switch {
		case err == nil && len(wrong) == 0:
			_ = os.Remove(path)
			return nil
		case err != nil:
			return fmt.Errorf("%w; what you wrote is in %s", err, path)
		case slices.ContainsFunc(refused, alike(after)): // it comes again uncorrected; an editor may be a script
			return fmt.Errorf("%s is not valid, and was left as it is; what you wrote is in %s\n%s",
				titled(key), path, strings.Join(wrong, "\n"))
		case len(refused) == mostOpened:
			return fmt.Errorf("%s is not valid after %d tries; what you wrote is in %s\n%s",
				titled(key), mostOpened, path, strings.Join(wrong, "\n"))
		}
		refused = append(refused, after)
		text, notes = after, append([]string{"It is not stored, for this:"}, wrong...)
	}
}

// mostOpened is how often a wrong text is opened again. An editor that is a script may write another wrong text each time.
const mostOpened = 20

// alike returns a function that reports whether a text is the given one, whatever space is at their ends.
func alike(text []byte) func([]byte) bool {
	return func(other []byte) bool { return bytes.Equal(bytes.TrimSpace(other), bytes.TrimSpace(text)) }
}

// open lets an editor change a text, and returns the new text without notes.
func open(cmd *cobra.Command, path string, notes []string, text []byte) ([]byte, error) {
	var b bytes.Buffer
	for _, line := range notes {
		fmt.Fprintln(&b, note+printable.Text(line, printable.Long))
	}
	b.Write(text)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return nil, err
	}
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), defaultEditor())
	run := exec.CommandContext(cmd.Context(), "sh", "-c", editor+` "$1"`, "sh", path) // it may be a command with arguments
	if runtime.GOOS == windows {
		words := strings.Fields(editor)
		run = exec.CommandContext(cmd.Context(), words[0], append(words[1:], path)...)
	}
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", printable.Text(editor, printable.Short), err)
	}
	after, err := disk.Stream(path, disk.MaxFile)
	if err != nil {
		return nil, err
	}
	for bytes.HasPrefix(after, []byte(strings.TrimSpace(note))) {
		_, after, _ = bytes.Cut(after, []byte("\n"))
	}
	return after, nil
}

// windows is the name of a system without sh and vi.
const windows = "windows"

func defaultEditor() string {
	if runtime.GOOS == windows {
		return "notepad"
	}
	return "vi"
}

// store writes an object as the user edited it, or returns its mistakes.
func (k *keeping) store(cmd *cobra.Command, s place, key config.Key, was store.Item, text []byte) (wrong []string, err error) {
	doc := config.Document{Line: 1, Text: text}
	m := meant{doc: doc, key: key, was: was.Revision, had: true}
	if !store.Single(key.Kind) {
		docs := config.Split("", text)
		if len(docs) != 1 {
			return []string{fmt.Sprintf("there are %d documents; want one", len(docs))}, nil
		}
		m.doc = docs[0]
	}
	decoder, err := k.decoder()
	if err != nil {
		return nil, err
	}
	_, problems := store.Decode(decoder, key, "", m.doc.Text)
	for _, p := range problems {
		if p.Severity == mesh.Error {
			wrong = append(wrong, p.String())
		}
	}
	if len(wrong) > 0 {
		return wrong, nil
	}
	if m.was, err = current(cmd.Context(), s, was); err != nil {
		return nil, err
	}
	return nil, k.put(cmd.Context(), cmd, s, m)
}

// current returns the version that an edited object is now based on. It is a newer one than the user has seen if that differs only in what
// no user writes, as the status: control planes write it at any time.
func current(ctx context.Context, s place, seen store.Item) (int64, error) {
	now, there, err := s.Get(ctx, seen.Key)
	if err != nil || !there || !bytes.Equal(now.Text, seen.Text) {
		return seen.Revision, err
	}
	return now.Revision, nil
}

func (k *keeping) put(ctx context.Context, cmd *cobra.Command, s place, m meant) error {
	out, err := k.applyStep(ctx, s, []meant{m})
	if err != nil {
		return err
	}
	return k.showDone(cmd.OutOrStdout(), out)
}
