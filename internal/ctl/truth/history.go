package truth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/ctl/output"
	"fairway/internal/printable"
)

// looking holds the flags of history.
type looking struct {
	namespace, proxy string
	follow           bool
	most             int
}

// history shows the last turns.
func history(s Session) *cobra.Command {
	l := &looking{}
	cmd := &cobra.Command{
		Use:   "history [TURN | KIND/[NAMESPACE/]NAME]",
		Short: "Show the last turns: cause, work, proxies, acknowledgements, refusals",
		Long: "Shows the last turns of a control plane that changed an object or something that proxies are sent: what caused each, " +
			"how many rows it computed, how many resources it made different, how many proxies were sent these, how long until the " +
			"first and the last of them acknowledged, and what was refused. A control plane remembers its last 1000.\n\n" +
			"  pilotctl history\n" +
			"  pilotctl history 8412\n" +
			"  pilotctl history virtualservice/shop/reviews --follow",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := l.query(args)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := l.run(cmd, s, query); err != nil {
				return output.CannotSay(err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&l.namespace, "namespace", "n", "default", "namespace of an object that names none")
	f.StringVar(&l.proxy, "proxy", "", "only turns that this proxy was sent; of a turn that more than 1000 were sent the first "+
		"are known")
	f.BoolVar(&l.follow, "follow", false, "go on with the turns that come")
	f.IntVar(&l.most, "most", 20, "how many turns, the latest")
	return cmd
}

func (l *looking) query(args []string) (url.Values, error) {
	if l.most <= 0 {
		return nil, fmt.Errorf("--most %d: want a positive number", l.most)
	}
	query := url.Values{"most": {strconv.Itoa(l.most)}}
	if l.proxy != "" {
		query.Set("proxyID", l.proxy)
	}
	if len(args) == 0 {
		return query, nil
	}
	if _, err := strconv.ParseUint(args[0], 10, 64); err == nil {
		query.Set("turn", args[0])
		return query, nil
	}
	k, err := objectCalled(args[0], l.namespace)
	if err != nil {
		return nil, fmt.Errorf("%w; a turn is a number", err)
	}
	query.Set("kind", string(k.Kind))
	query.Set("namespace", k.Namespace)
	query.Set("name", k.Name)
	return query, nil
}

// turnsOf are the turns of one control plane.
type turnsOf struct {
	ControlPlane string      `json:"controlPlane"`
	Turns        []page.Turn `json:"turns"`
}

// run asks all control planes: each counts turns of its own.
func (l *looking) run(cmd *cobra.Command, s Session, query url.Values) error {
	planes, err := s.Planes(cmd.Context())
	if err != nil {
		return err
	}
	last := map[string]uint64{} // turn shown, by control plane
	for first := true; ; first = false {
		answers, err := turns(cmd.Context(), planes, query, last)
		if err != nil && len(answers) == 0 {
			return err
		}
		if first || slices.ContainsFunc(answers, func(a turnsOf) bool { return len(a.Turns) > 0 }) {
			turn := query.Get("turn")
			err = errors.Join(show(cmd, s, answers, func(w io.Writer) error { return writeAll(w, answers, turn) }), err)
		}
		if err != nil || !l.follow || query.Get("turn") != "" {
			return err
		}
		for _, a := range answers {
			if n := len(a.Turns); n > 0 {
				last[a.ControlPlane] = a.Turns[n-1].Number
			}
		}
		if pause(cmd.Context(), time.Second) {
			return nil
		}
	}
}

// turns asks all control planes for turns after those that each has shown.
func turns(ctx context.Context, planes []Plane, query url.Values, last map[string]uint64) (out []turnsOf, err error) {
	var errs []error
	for _, c := range planes {
		var some []page.Turn
		if after := last[c.Called()]; after > 0 {
			query.Set("after", strconv.FormatUint(after, 10))
		} else {
			query.Del("after")
		}
		if err := c.Fetch(ctx, "/debug/historyz", query, &some); err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, turnsOf{c.Called(), some})
	}
	return out, errors.Join(errs...)
}

// writeAll prints the turns of all control planes.
func writeAll(w io.Writer, answers []turnsOf, turn string) error {
	for _, a := range answers {
		if len(answers) > 1 {
			if _, err := fmt.Fprintf(w, "%s:\n", printable.Text(a.ControlPlane, printable.Short)); err != nil {
				return err
			}
		}
		if err := writeTurns(w, a.Turns, turn); err != nil {
			return err
		}
	}
	return nil
}

// writeTurns prints turns as a table, and one turn that was asked for as sentences.
func writeTurns(w io.Writer, all []page.Turn, turn string) error {
	if turn != "" && len(all) == 1 {
		return writeTurn(w, all[0])
	}
	sh := output.Sheet{
		Header: []string{"TURN", "AT", "MS", "CAUSE", "ROWS", "RESOURCES", "PROXIES", "FIRST ACK", "LAST ACK", "REFUSED"},
		Empty:  "no such turn is remembered",
	}
	for _, t := range all {
		sh.Rows = append(sh.Rows, []string{
			fmt.Sprint(t.Number), t.At.UTC().Format("15:04:05.000"), fmt.Sprint(t.Millis), cause(t), rowsOf(t), fmt.Sprint(t.ResourceCount),
			sentTo(t), millis(t.FirstAckMillis), millis(t.LastAckMillis), fmt.Sprint(t.RefusalCount),
		})
	}
	return sh.Table(w)
}

// cause names what a turn came of, in a few words.
func cause(t page.Turn) string {
	switch {
	case t.Start:
		return "start: " + output.Plural(t.ObjectCount, "object")
	case t.ObjectCount > 0 && len(t.Objects) > 0:
		o := t.Objects[0]
		return more(strings.TrimSpace(o.Kind+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))+" "+o.Change, t.ObjectCount)
	case len(t.Inputs) > 0:
		return more(t.Inputs[0], t.Staged)
	}
	return "-"
}

func more(first string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s and %d more", first, n-1)
	}
	return first
}

func rowsOf(t page.Turn) string {
	if t.Full {
		return fmt.Sprintf("%d (full)", t.Rows)
	}
	return fmt.Sprint(t.Rows)
}

func sentTo(t page.Turn) string {
	if t.MoreProxies {
		return fmt.Sprintf("%d+", t.Proxies)
	}
	return fmt.Sprint(t.Proxies)
}

func millis(ms float64) string {
	if ms == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", ms)
}

// writeTurn tells what one turn did.
func writeTurn(w io.Writer, t page.Turn) error {
	var b sentences
	b.line("turn %d at %s, %.1f ms", t.Number, t.At.UTC().Format("2006-01-02 15:04:05.000 MST"), t.Millis)
	if b.line("cause:"); t.Start {
		b.line("  the control plane started")
	}
	for _, o := range t.Objects {
		b.line("  %s %s %s", o.Kind, strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), o.Change)
	}
	if n := t.ObjectCount - len(t.Objects); n > 0 {
		b.line("  and %d more objects", n)
	}
	if len(t.Objects) == 0 {
		for _, in := range t.Inputs {
			b.line("  %s", in)
		}
		if n := t.Staged - len(t.Inputs); n > 0 {
			b.line("  and %d more rows", n)
		}
	}
	b.line("%s: %s computed, of all tables %d became different", extent(t), output.Plural(t.Rows, "row"), t.Changed)
	for _, in := range t.Tables {
		b.line("  %s: %d computed, %d changed", in.Name, in.Recomputed, in.Changed)
	}
	b.line("%s became different", output.Plural(t.ResourceCount, "resource"))
	for _, r := range t.Resources {
		b.line("  %s: %d", r.Type, r.Count)
	}
	b.line("sent to %s proxies in %s of %d bytes; %s", sentTo(t), output.Plural(t.Responses, "response"), t.Bytes, acks(t))
	for _, r := range t.Refusals {
		b.line("%s refused %s %s:", page.ShortName(r.ProxyID), r.Type, strings.Join(r.Names, ", "))
		b.quote(r.Detail)
	}
	if n := t.RefusalCount - len(t.Refusals); n > 0 {
		b.line("and %d more refusals", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func extent(t page.Turn) string {
	if t.Full {
		return fmt.Sprintf("full, because most of %d rows read what changed", t.TotalRows)
	}
	return "incremental"
}

func acks(t page.Turn) string {
	if t.Acks == 0 {
		return "none of them is acknowledged"
	}
	return fmt.Sprintf("%d acknowledged, the first after %.1f ms, the last after %.1f ms", t.Acks, t.FirstAckMillis,
		cmp.Or(t.LastAckMillis, t.FirstAckMillis))
}
