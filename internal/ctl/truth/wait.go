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
	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/printable"
)

// waiting holds the flags and arguments of wait.
type waiting struct {
	namespace, proxy string
	files            []string
	recursive        bool
	turn             uint64
	generation       int64
	timeout          time.Duration
}

// asked is one question to the control planes.
type asked struct {
	what  string // in messages
	query url.Values
	key   config.Key // zero: of a turn
}

// liveOn is what one control plane answered.
type liveOn struct {
	ControlPlane string `json:"controlPlane"`
	page.Live
}

// wait waits until objects, or a turn, are in force on all proxies.
func wait(s Session) *cobra.Command {
	w := &waiting{}
	cmd := &cobra.Command{
		Use:   "wait {KIND/[NAMESPACE/]NAME... | -f FILE|FOLDER|-... | --turn N}",
		Short: "Wait until objects, or a turn, are in force on all proxies",
		Long: "Asks every control plane whether each object's version is in force on all of its proxies, until all say yes, or " +
			"until --timeout is over. A proxy counts once it has acknowledged everything up to the turn in which the version came into " +
			"force, and none of its listeners and clusters warms any more; agents report that.\n\n" +
			"With -f the versions are those in the files. Turns are counted by each control plane for itself.\n\n" +
			"  kubectl apply -f reviews.yaml && pilotctl wait -f reviews.yaml\n" +
			"  pilotctl wait virtualservice/shop/reviews --generation 7\n" +
			"  pilotctl wait --turn 8412 --address 10.0.0.1:15014 --proxy web-1.shop\n\n" +
			"It ends with 0 if everything is in force, with 1 if something is not, and with 2 if that cannot be said.",
		RunE: func(cmd *cobra.Command, args []string) error {
			questions, err := w.questions(cmd, args)
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) > 0 && w.generation == 0 {
				newest(cmd, s, questions)
			}
			return w.run(cmd, s, questions)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&w.namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.StringSliceVarP(&w.files, "filename", "f", nil, "files or folders of objects; -: standard input")
	f.BoolVarP(&w.recursive, "recursive", "R", false, "read folders in folders too")
	f.Uint64Var(&w.turn, "turn", 0, "a turn of the control plane, as its log and pilotctl history name it")
	f.Int64Var(&w.generation, "generation", 0, "of the object in Kubernetes, at least; 0: its present one if a cluster "+
		"is known, else the version that was read last")
	f.StringVar(&w.proxy, "proxy", "", "ask for this proxy alone")
	f.DurationVar(&w.timeout, "timeout", 30*time.Second, "how long to wait; 0: answer at once")
	return cmd
}

// questions reads the command line.
func (w *waiting) questions(cmd *cobra.Command, args []string) (out []asked, err error) {
	ways := 0
	for _, used := range []bool{len(args) > 0, len(w.files) > 0, w.turn > 0} {
		if used {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, errors.New("say what to wait for: objects as KIND/NAME, or files with -f, or a turn with --turn")
	case w.timeout < 0 || w.generation < 0:
		return nil, errors.New("--timeout and --generation must not be negative")
	case w.generation > 0 && len(args) != 1:
		return nil, errors.New("--generation is of one object: name it as KIND/NAME")
	case w.turn > 0:
		out = []asked{{"turn " + strconv.FormatUint(w.turn, 10), url.Values{"turn": {strconv.FormatUint(w.turn, 10)}}, config.Key{}}}
	case len(args) > 0:
		out, err = w.named(args)
	default:
		out, err = w.inFiles(cmd.InOrStdin())
	}
	for _, q := range out {
		if w.proxy != "" {
			q.query.Set("proxyID", w.proxy)
		}
	}
	return out, err
}

// named asks for the objects that arguments name.
func (w *waiting) named(args []string) (out []asked, err error) {
	for _, arg := range args {
		k, err := objectCalled(arg, w.namespace)
		if err != nil {
			return nil, err
		}
		q := question(k)
		if w.generation > 0 {
			q.query.Set("generation", strconv.FormatInt(w.generation, 10))
		}
		out = append(out, q)
	}
	return out, nil
}

// objectCalled reads KIND/[NAMESPACE/]NAME; MeshConfig and MeshNetworks have no name.
func objectCalled(arg, namespace string) (k config.Key, err error) {
	word, name, _ := strings.Cut(arg, "/")
	kind, known := config.KindCalled(word, config.WrittenKinds())
	switch single := kind == config.MeshConfig || kind == config.MeshNetworks; {
	case !known:
		return k, fmt.Errorf("there is no kind %q; write an object as virtualservice/reviews", printable.Text(word, printable.Short))
	case single:
		return config.Key{Kind: kind}, nil
	}
	if in, own, ok := strings.Cut(name, "/"); ok {
		namespace, name = in, own
	}
	if name == "" || strings.Contains(name, "/") {
		return k, fmt.Errorf("%s: want KIND/NAME or KIND/NAMESPACE/NAME", printable.Text(arg, printable.Short))
	}
	return config.Key{Kind: kind, Namespace: namespace, Name: name}, nil
}

func question(k config.Key) asked {
	return asked{title(k), url.Values{"kind": {string(k.Kind)}, "namespace": {k.Namespace}, "name": {k.Name}}, k}
}

// newest has the questions ask for the objects' present generations in the cluster, which control planes may not have read yet. If that
// is not known, the version that they have read counts.
func newest(cmd *cobra.Command, s Session, questions []asked) {
	for _, q := range questions {
		switch generation, err := s.Generation(cmd.Context(), q.key); {
		case err != nil:
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: its generation is not known, so the version that was read last counts: %s\n", q.what,
				printable.Text(err.Error(), printable.Long))
		case generation > 0:
			q.query.Set("generation", strconv.FormatInt(generation, 10))
		}
	}
}

// version asks for a version of an object by its content.
func version(o *config.Object) asked {
	q := question(o.Key)
	q.query.Set("hash", strconv.FormatUint(o.CreatedAt(0).Hash, 16))
	return q
}

// title names an object in messages.
func title(k config.Key) string {
	return strings.TrimSpace(string(k.Kind) + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/"))
}

// inFiles asks for the versions of objects that files hold.
func (w *waiting) inFiles(stdin io.Reader) (out []asked, err error) {
	docs, err := analyze.Documents(w.files, w.recursive, stdin)
	if err != nil {
		return nil, err
	}
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: w.namespace})
	if err != nil {
		return nil, err
	}
	for _, doc := range docs {
		o, problems := decoder.Decode(doc)
		if bad := slices.IndexFunc(problems, func(p mesh.Problem) bool { return p.Severity == mesh.Error }); bad >= 0 {
			return nil, fmt.Errorf("it cannot come into force: %s", problems[bad])
		}
		if o == nil || o.Credential != nil {
			continue // of another kind, which control planes do not read, or one that they show nothing of
		}
		out = append(out, version(o))
	}
	if len(out) == 0 {
		return nil, errors.New("there are no objects of this mesh in what -f names")
	}
	return out, nil
}

// waitSteps are how long wait pauses between two rounds, the last again and again.
var waitSteps = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second}

// run asks until all is in force, or time is over, and prints the last answers.
func (w *waiting) run(cmd *cobra.Command, s Session, questions []asked) error {
	answers, err := w.await(cmd.Context(), s, questions, settled)
	if err != nil {
		return output.CannotSay(err)
	}
	all, text, err := w.verdict(questions, answers)
	shown := show(cmd, s, all, func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	})
	if err = cmp.Or(shown, err); err != nil {
		return output.Fail(err)
	}
	return nil
}

// await asks until over reports true for the answers to each question, or until time is over. It returns the last answers.
func (w *waiting) await(of context.Context, s Session, questions []asked, over func([]liveOn) bool) (map[string][]liveOn, error) {
	ctx, stop := context.WithTimeout(of, max(w.timeout, time.Nanosecond))
	defer stop()
	planes, err := s.Planes(of)
	if err != nil {
		return nil, err
	}
	answers := map[string][]liveOn{}
	for round := 0; ; round++ {
		open := false
		for _, q := range questions {
			if over(answers[q.what]) {
				continue
			}
			if answers[q.what], err = askAll(of, planes, q, w.proxy != ""); err != nil {
				return nil, err
			}
			open = open || !over(answers[q.what])
		}
		if !open || w.timeout == 0 || pause(ctx, waitSteps[min(round, len(waitSteps)-1)]) {
			return answers, nil
		}
	}
}

// settled reports whether waiting longer changes nothing: it is in force everywhere, or some proxies refuse it and all others have it.
func settled(answers []liveOn) bool {
	return len(answers) > 0 && !slices.ContainsFunc(answers, func(a liveOn) bool {
		return !a.InEffect() && a.State != page.LiveRefused
	})
}

// pause waits. It reports whether the time is over.
func pause(ctx context.Context, d time.Duration) (over bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-ctx.Done():
		return true
	}
}

// askAll asks all control planes. A proxy is connected to one of them: if it is asked for alone, those that do not know it do not count.
func askAll(ctx context.Context, planes []Plane, q asked, one bool) (out []liveOn, err error) {
	var errs []error
	for _, c := range planes {
		var live page.Live
		if err := c.Fetch(ctx, "/debug/livez", q.query, &live); err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, liveOn{c.Called(), live})
	}
	if one && len(out) > 0 {
		return out, nil
	}
	return out, errors.Join(errs...)
}

// verdict describes the answers, as values and in words. An error says that something is not in force.
func (w *waiting) verdict(questions []asked, answers map[string][]liveOn) (all []liveOn, text string, err error) {
	missing := 0
	var b sentences
	all = []liveOn{}
	for _, q := range questions {
		for _, a := range answers[q.what] {
			if !a.InEffect() {
				missing++
			}
			describe(&b, q.what, a, len(answers[q.what]) > 1)
		}
		all = append(all, answers[q.what]...)
	}
	switch {
	case missing > 0 && w.timeout > 0:
		err = fmt.Errorf("%w after %s", errNotInForce, w.timeout)
	case missing > 0:
		err = errNotInForce
	}
	return all, b.String(), err
}

var errNotInForce = errors.New("not everything is in force")

// describe writes a paragraph about one answer.
func describe(b *sentences, what string, a liveOn, several bool) {
	on := ""
	if several {
		on = " (" + a.ControlPlane + ")"
	}
	switch a.State {
	case page.LiveYes:
		b.line("%s%s: in force since turn %d%s, acknowledged by every proxy (%d)", what, on, a.Turn, output.Clock(a.At), a.Proxies)
	case page.LiveAcknowledged:
		b.line("%s%s: in force since turn %d%s, acknowledged by every proxy (%d); warming unknown%s", what, on, a.Turn, output.Clock(a.At),
			a.Proxies, of(a.Silent, a.Proxies))
	case page.LiveWarming:
		b.line("%s%s: in force since turn %d%s, acknowledged by every proxy (%d), and still warming in %d", what, on, a.Turn,
			output.Clock(a.At), a.Proxies, a.Warming)
	case page.LiveBehind, page.LiveRefused:
		behind := len(a.Behind) + a.More
		b.line("%s%s: in force since turn %d%s, and %d of %s not have it", what, on, a.Turn, output.Clock(a.At), behind,
			output.Number(a.Proxies, "proxy does", "proxies do"))
	case page.LiveWaits:
		b.line("%s%s: it waits%s", what, on, remaining(a.Until, time.Now()))
	case page.LivePending:
		b.line("%s%s: it has not come yet", what, on)
	case page.LiveInvalid:
		b.line("%s%s: it has errors, and what they name is not in force", what, on)
	default:
		b.line("%s%s: no such version has been read", what, on)
	}
	for _, why := range a.Why {
		b.line("  %s", why)
	}
	for _, p := range a.Behind {
		of := ""
		if p.Type != "" {
			of = " " + p.Type
		}
		b.line("  %s: %s%s %s%s", page.ShortName(p.ProxyID), p.State, of, p.Name, output.Clock(p.Since))
		b.quote(p.Detail)
	}
	if a.More > 0 {
		b.line("  and %d more", a.More)
	}
}

// of says of how many of all something holds; empty: of all.
func of(some, all int) string {
	if some == all {
		return ""
	}
	return fmt.Sprintf(" of %d", some)
}

// remaining says how long a wait at the door lasts at most.
func remaining(until *time.Time, now time.Time) string {
	if until == nil {
		return ""
	}
	return fmt.Sprintf(", %s left, for", max(0, until.Sub(now)).Round(time.Second))
}
