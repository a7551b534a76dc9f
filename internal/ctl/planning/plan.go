package planning

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairway/internal/admin/page"
	"fairway/internal/analyze"
	"fairway/internal/config"
	"fairway/internal/ctl/output"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/plan"
	"fairway/internal/printable"
	"fairway/internal/spelling"
	"fairway/internal/trial"
)

// flags are those of plan.
type flags struct {
	files                            []string
	namespace, on, source, against   string
	recursive, remove, diff, cluster bool
}

// errChanges is the end of a plan that changes something.
var errChanges = errors.New("the change makes a difference")

// planned shows what a change would do.
func planned(s Session) *cobra.Command {
	p := &flags{}
	cmd := &cobra.Command{
		Use:   "plan -f FILE|FOLDER|-...",
		Short: "Show what a change of objects would do, before it is made",
		Long: "Reads the input of the control plane (its snapshot, without secrets), computes here which resources every connected proxy " +
			"would be sent if the objects in the files were applied, and shows the differences: dangers, which requests go " +
			"elsewhere, which policies allow or deny more, which problems come and go, and the resources. Nothing is changed, and the " +
			"control plane computes nothing.\n\n" +
			"Callers of one namespace get no snapshot. For them the control plane makes the plan, of at most 20 objects of their " +
			"namespace, and shows what concerns its proxies and objects. Kubernetes' own objects, such as Services and Deployments, " +
			"are not planned: the plan names them.\n\n" +
			"Without a control plane: --on plans on top of a snapshot in a file, or of a folder of rules, and --use-kube on top of the " +
			"kubeconfig's cluster; the proxies are then those that its workloads and rules would have.\n\n" +
			"  pilotctl plan -f reviews.yaml\n" +
			"  pilotctl plan -f rules/ --diff\n" +
			"  pilotctl plan -f old-policy.yaml --delete\n" +
			"  pilotctl plan -f new.yaml --on rules/\n" +
			"  pilotctl plan --against xds://10.0.0.7:15010\n\n" +
			"It ends with 0 if the change makes no difference, with 1 if it makes one, and with 2 if that cannot be said.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (len(p.files) == 0) == (p.against == "") {
				return errors.New("the change is missing: -f names files or folders of objects; or --against names another control plane")
			}
			defer s.Close()
			found, err := p.run(cmd.Context(), s, cmd.InOrStdin())
			if err != nil {
				return output.CannotSay(err)
			}
			if err := p.show(cmd.OutOrStdout(), s.Format(), found); err != nil {
				return output.CannotSay(err)
			}
			if !found.Empty() {
				return output.Fail(errChanges)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&p.files, "filename", "f", nil, "files or folders of objects; -: standard input")
	f.BoolVarP(&p.recursive, "recursive", "R", false, "read folders in folders too")
	f.StringVarP(&p.namespace, "namespace", "n", "default", "namespace of objects that name none")
	f.BoolVar(&p.remove, "delete", false, "the objects are removed, not applied")
	f.BoolVar(&p.diff, "diff", false, "show each field that differs, of all resources")
	f.StringVar(&p.on, "on", "", "plan on top of this: a snapshot, or a folder of rules")
	f.BoolVarP(&p.cluster, "use-kube", "k", false, "plan on top of the kubeconfig's cluster, without asking a control plane")
	f.StringVar(&p.against, "against", "",
		"show what another control plane would send the same proxies: xds://HOST:PORT asks it as each proxy does, whatever it is; a "+
			"snapshot, an archive or a folder of rules is the input of one like this")
	f.StringVar(&p.source, "source", "",
		"the source that the objects come from, as /debug/sourcez names it (default: the one that has them, or the first)")
	return cmd
}

// run makes the plan.
func (p *flags) run(ctx context.Context, s Session, stdin io.Reader) (out *plan.Plan, err error) {
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: p.namespace})
	if err != nil {
		return nil, err
	}
	if p.against != "" {
		return p.compare(ctx, s, decoder)
	}
	changes, others, err := p.changes(decoder, stdin)
	if err != nil {
		return nil, err
	}
	base, err := p.base(ctx, s, decoder)
	switch {
	case withheld(err):
		out, err = askThere(ctx, s, p.namespace, changes)
	case err == nil:
		var planner *plan.Planner
		if planner, err = plan.New(base, decoder); err == nil {
			out, err = planner.Plan(ctx, changes)
		}
	}
	if err != nil {
		return nil, err
	}
	out.NotPlanned = others
	return out, nil
}

// compare compares with another control plane, or another input.
func (p *flags) compare(ctx context.Context, s Session, d *config.Decoder) (*plan.Plan, error) {
	base, err := p.base(ctx, s, d)
	if err != nil {
		return nil, err
	}
	if address, is := strings.CutPrefix(p.against, overXDS); is {
		return askOver(ctx, s, base, address)
	}
	other, err := p.read(ctx, s, d, "--against", p.against)
	if err != nil {
		return nil, err
	}
	return plan.Compare(base, other)
}

// changes reads the files. It also counts the objects of kinds that are not planned.
func (p *flags) changes(d *config.Decoder, stdin io.Reader) (out trial.Changes, others []plan.KindCount, err error) {
	docs, err := analyze.Documents(p.files, p.recursive, stdin)
	if err != nil {
		return out, nil, err
	}
	out.Source = p.source
	left := map[string]int{}
	for _, doc := range docs {
		o, problems := d.Decode(doc)
		for _, bad := range problems {
			if bad.Severity == mesh.Error && p.remove {
				return out, nil, fmt.Errorf("it does not say what to remove: %s", bad)
			}
		}
		switch {
		case o == nil && !slices.ContainsFunc(problems, func(p mesh.Problem) bool { return p.Code != code.ForeignKind }):
			if kind := kindOf(doc); kind != "" {
				left[kind]++
			}
		case !p.remove:
			out.Documents = append(out.Documents, doc)
		case o != nil:
			out.Gone = append(out.Gone, o.Key)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(left)) {
		others = append(others, plan.KindCount{Kind: kind, Count: left[kind]})
	}
	switch {
	case len(out.Documents)+len(out.Gone) > 0:
		return out, others, nil
	case len(others) > 0:
		return out, nil, fmt.Errorf("there is nothing to plan in what -f names; %s", notPlanned(others))
	}
	return out, nil, errors.New("there are no objects in what -f names")
}

// kindOf returns the kind that a document names; empty: none.
func kindOf(doc config.Document) string {
	tree, _ := doc.Tree()
	object, _ := tree.(map[string]any)
	kind, _ := object["kind"].(string)
	return printable.Text(kind, printable.Short)
}

// mostKinds is how many kinds are named.
const mostKinds = 20

// notPlanned says which objects a plan leaves out.
func notPlanned(others []plan.KindCount) string {
	var parts []string
	for i, k := range others {
		if i == mostKinds {
			parts = append(parts, fmt.Sprintf("%d other kinds", len(others)-i))
			break
		}
		parts = append(parts, output.Number(k.Count, k.Kind, spelling.Plural(k.Kind)))
	}
	return "not planned: " + strings.Join(parts, ", ") + ": a plan has the Services, pods and namespaces that are there now"
}

// show prints the plan.
func (p *flags) show(w io.Writer, format string, found *plan.Plan) error {
	if format == "json" || format == "yaml" {
		return output.WriteValue(w, format, found)
	}
	var b strings.Builder
	if found.Namespace != "" {
		fmt.Fprintf(&b, "planned in the control plane: what you may see of it, namespace %s\n",
			printable.Text(found.Namespace, printable.Short))
	}
	switch {
	case found.Empty():
		fmt.Fprintf(&b, "nothing would change for the %s\n", output.Number(found.Connected, "connected proxy", "connected proxies"))
	case found.Proxies == 0:
		fmt.Fprintf(&b, "none of %s would be sent anything\n", output.Number(found.Connected, "proxy", "proxies"))
	default:
		fmt.Fprintf(&b, "%d of %s would be sent something: %s\n", found.Proxies,
			output.Number(found.Connected, "proxy", "proxies"), size(found))
	}
	writeAll(&b, "DANGER", found.Dangers)
	writeProblems(&b, "problems that come", found.Added)
	writeAll(&b, "requests, endpoints and policies", found.Changes)
	writeProblems(&b, "problems that go", found.Removed)
	if len(found.Asks) > 0 {
		fmt.Fprintf(&b, "\nthe control plane would have to ask for these; the plan shows the state without them\n  %s\n",
			strings.Join(found.Asks, "\n  "))
	}
	p.writeResources(&b, found.Resources)
	if len(found.NotPlanned) > 0 {
		fmt.Fprintf(&b, "\n%s\n", notPlanned(found.NotPlanned))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// size says how much is sent, by type.
func size(p *plan.Plan) string {
	var parts []string
	for _, t := range p.Types {
		for _, n := range []struct {
			n    int
			what string
		}{{t.Added, "added"}, {t.Changed, "changed"}, {t.Removed, "removed"}} {
			if n.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s %s", n.n, t.Type, n.what))
			}
		}
	}
	return fmt.Sprintf("%s; %d bytes in all", strings.Join(parts, ", "), p.Bytes)
}

func writeAll(b *strings.Builder, title string, all []plan.Sentence) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, s := range all {
		fmt.Fprintf(b, "  %s%s\n", printable.Text(s.Text, printable.Long), aboutProxies(s.Proxies, s.Some))
	}
}

// aboutProxies names the proxies that something is about.
func aboutProxies(n int, some []string) string {
	if n == 0 {
		return ""
	}
	names := make([]string, len(some))
	for i, id := range some {
		names[i] = printable.Text(page.ShortName(mesh.ProxyID(id).Node()), printable.Short)
	}
	if n > len(some) {
		names = append(names, "…")
	}
	return fmt.Sprintf(" (%s: %s)", output.Number(n, "proxy", "proxies"), strings.Join(names, ", "))
}

func writeProblems(b *strings.Builder, title string, all []plan.Problem) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, p := range all {
		fmt.Fprintf(b, "  %s\n", printable.Text(p.Text, printable.Long))
	}
}

// Without --diff this many resources are listed, and of each this many fields.
const (
	mostResources = 20
	mostFields    = 3
)

func (p *flags) writeResources(b *strings.Builder, all []plan.Resource) {
	if len(all) == 0 {
		return
	}
	b.WriteString("\nresources\n")
	for i, r := range all {
		if i == mostResources && !p.diff {
			fmt.Fprintf(b, "  and %d more: --diff shows all\n", len(all)-i)
			break
		}
		fmt.Fprintf(b, "  %s %s %s%s\n", r.Change, r.Type, printable.Text(r.Name, printable.Long), aboutProxies(r.Proxies, r.Some))
		for j, f := range r.Fields {
			if j == mostFields && !p.diff {
				fmt.Fprintf(b, "    and %s more: --diff shows all\n", output.Plural(len(r.Fields)-j, "field"))
				break
			}
			fmt.Fprintf(b, "    %s: %s → %s\n", f.Path, p.value(f.Old), p.value(f.New))
		}
	}
}

// mostValue is how many characters of a value are shown without --diff.
const mostValue = 100

func (p *flags) value(text string) string {
	if runes := []rune(text); len(runes) > mostValue && !p.diff {
		text = string(runes[:mostValue]) + "…"
	}
	return output.OrDash(text)
}
