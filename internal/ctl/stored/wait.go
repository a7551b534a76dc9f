package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairway/internal/config"
	"fairway/internal/printable"
)

// Live asks control planes how far they are with versions of objects.
type Live interface {
	// Wait waits until they are in force on all proxies, for a time at most, and writes how far each is.
	Wait(ctx context.Context, to io.Writer, objects []*config.Object, timeout time.Duration) error
	// Turns returns the turns that brought them into force, as "turn 8412". It waits a moment for them.
	Turns(context.Context, []*config.Object) (map[config.Key]string, error)
}

// watching holds the flags of apply about what control planes do with the objects.
type watching struct {
	live    Live
	wait    bool
	timeout time.Duration
}

func (w *watching) bind(f *pflag.FlagSet) {
	f.BoolVar(&w.wait, "wait", false, "wait until the objects are in force on all proxies; exit codes as of pilotctl wait")
	f.DurationVar(&w.timeout, "timeout", 30*time.Second, "how long --wait waits; 0: it says at once how far they are")
}

func (w *watching) check(dryRun bool) error {
	switch {
	case w.wait && dryRun:
		return errors.New("--wait and --dry-run: want one of them, because a dry run writes nothing that could come into force")
	case w.timeout < 0:
		return errors.New("--timeout must not be negative")
	}
	return nil
}

// named are the flags that say which control planes to ask. Without one of them, and without --wait, apply asks etcd alone.
var named = []string{"address", "kubeconfig", "context"}

// name notes the turn that brought each written object into force, if a flag names control planes. It is no error if they do not answer:
// the objects are stored.
func (w *watching) name(cmd *cobra.Command, all []done, of []meant) {
	asked := false
	for _, flag := range named {
		asked = asked || cmd.Flags().Changed(flag)
	}
	if !asked || w.wait {
		return
	}
	var written []*config.Object
	for i, d := range all {
		if d.what != wasUnchanged {
			written = append(written, of[i].o)
		}
	}
	if len(written) == 0 {
		return
	}
	turns, err := w.live.Turns(cmd.Context(), written)
	for i, d := range all {
		all[i].turn = turns[d.Key]
	}
	switch {
	case err != nil:
		fmt.Fprintln(cmd.ErrOrStderr(), "the turn is not known: "+printable.Lines(err.Error(), printable.Long))
	case len(turns) < len(written):
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d objects are stored, and not yet in force: pilotctl wait -f says what they wait for\n",
			len(written)-len(turns), len(written))
	}
}

// await waits for the objects. If beside is set, it prints to the standard error, because programs read the output.
func (w *watching) await(cmd *cobra.Command, all []meant, beside bool) error {
	to := cmd.OutOrStdout()
	if beside {
		to = cmd.ErrOrStderr()
	}
	var objects []*config.Object
	for _, m := range all {
		objects = append(objects, m.o)
	}
	return w.live.Wait(cmd.Context(), to, objects, w.timeout)
}
