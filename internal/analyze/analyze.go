package analyze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"fairway/internal/compile"
	"fairway/internal/config"
	"fairway/internal/disk"
	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/snapshot"
	"fairway/internal/source"
	"fairway/internal/source/kube/translate"
	"fairway/internal/source/shards"
	"fairway/internal/table"
)

// The mesh is assumed to have the names that charts set by default.
const (
	domain  = "cluster.local"
	cluster = "Kubernetes"
)

// Options say what is analyzed. Files or a cluster must be set.
type Options struct {
	Paths     []string  // files and folders; Stdin is the standard input
	Stdin     io.Reader // the text of the path Stdin
	Recursive bool      // folders in folders are read too
	// Cluster is read too. If a file and the cluster have the same object, the file's counts, as if it had been applied. nil: no cluster.
	Cluster *rest.Config
	Within  time.Duration // how long the cluster may take to answer; 0: half a minute

	MeshConfig    string // a file with the mesh configuration; empty: that of the files or the cluster, else Istio's defaults
	Namespace     string // of objects that name none; empty: default
	RootNamespace string // empty: istio-system
	Revision      string // of the control plane that the analyzed objects are for; empty: the objects of all
	// IgnoreUnknown leaves out documents that are not objects of this mesh: values of charts, kinds of other programs.
	IgnoreUnknown bool
}

// ErrNothing means that neither files nor a cluster were named.
var ErrNothing = errors.New("nothing to analyze")

// Run returns the problems of all that the options name, in the order in which a control plane lists them. If something could not be read,
// it also returns an error that names it, together with the problems of the rest. It keeps nothing after the call.
func Run(ctx context.Context, o Options) ([]mesh.Problem, error) {
	a, live, unread, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	defer live.end()
	problems, err := a.problems(ctx, live)
	problems, refused := withheld(problems)
	return problems, errors.Join(unread, err, refused)
}

// Snapshot returns all that the options name as a control plane would have been told it, with the proxies that would be connected: those of
// known workloads, and those that rules select. It fails if something could not be read.
func Snapshot(ctx context.Context, o Options) (*snapshot.Snapshot, error) {
	a, live, unread, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	defer live.end()
	if unread != nil {
		return nil, unread
	}
	if err := a.turn(ctx, live); err != nil {
		return nil, err
	}
	all, selectors := known(a.graph, a.o.RootNamespace, cluster)
	all.addAssumed(selectors, a.hasSecret)
	for _, p := range all.proxies {
		a.graph.In.Proxies.Set(p.ID, p)
	}
	if err := a.turn(ctx, live); err != nil {
		return nil, err
	}
	head := snapshot.Head{Taken: time.Now().UTC(), Options: snapshot.Options{RootNamespace: a.o.RootNamespace, Cluster: cluster}}
	return snapshot.Take(head, a.set, a.graph), nil
}

// begin reads all that the options name. unread names all that could not be read; live is nil if no cluster is read.
func begin(ctx context.Context, o Options) (a *analysis, l *live, unread, err error) {
	if len(o.Paths) == 0 && o.Cluster == nil {
		return nil, nil, nil, ErrNothing
	}
	o.Namespace, o.RootNamespace = cmp.Or(o.Namespace, "default"), cmp.Or(o.RootNamespace, "istio-system")
	decoder, err := config.NewDecoder(config.Options{DefaultNamespace: o.Namespace})
	if err != nil {
		return nil, nil, nil, err
	}
	a = &analysis{
		o: o, graph: compile.New(compile.Options{RootNamespace: o.RootNamespace, Cluster: cluster, Selecting: true}),
		read:        newReader(decoder, translate.For(cluster, domain), o.Namespace, o.RootNamespace),
		fileObjects: map[config.Key]bool{},
	}
	a.read.alone, a.read.revision = o.Cluster == nil, o.Revision
	a.set = shards.New(a.graph.In, nil)
	texts, unread := read(o.Paths, o.Recursive, o.Stdin)
	if err := a.files(texts); err != nil {
		return nil, nil, nil, errors.Join(unread, err)
	}
	if o.Cluster == nil {
		return a, nil, unread, nil
	}
	if l, err = a.follow(ctx); err != nil {
		return nil, nil, nil, errors.Join(unread, err)
	}
	return a, l, errors.Join(unread, a.look(ctx)), nil
}

// withheld removes what the API server does not let its user read, and returns it as an error: it is not a mistake of the objects, but the
// answer is incomplete.
func withheld(all []mesh.Problem) (rest []mesh.Problem, unread error) {
	var errs []error
	for _, p := range all {
		if p.Code != code.Unreadable || p.Object.File != "" {
			rest = append(rest, p)
			continue
		}
		why, _, _ := strings.Cut(p.Message, "; the last state that was read")
		errs = append(errs, fmt.Errorf("%s is not read: %s; let the kubeconfig's user list and watch it", p.Object, why))
	}
	return rest, errors.Join(errs...)
}

// analysis is one call of Run.
type analysis struct {
	o           Options
	graph       *compile.Graph
	set         *shards.Set
	read        *reader
	fileObjects map[config.Key]bool // objects and Services of files
}

// files adds the content of the files.
func (a *analysis) files(texts []text) error {
	sink, err := a.set.Join("files", 0)
	if err != nil {
		return err
	}
	update := source.Update{Synced: true, Problems: map[string][]mesh.Problem{}}
	add := func(name string, rows source.Rows, problems []mesh.Problem) {
		for _, o := range rows.Objects {
			a.fileObjects[o.Key] = true
		}
		for _, s := range rows.Services {
			a.fileObjects[config.Key{Kind: "Service", Namespace: s.Key.Namespace, Name: s.Key.Object}] = true
		}
		update.Shards = append(update.Shards, source.Shard{Key: source.ShardKey{Kind: "file", Part: name}, Whole: true, Rows: rows})
		update.Problems[name] = append(update.Problems[name], slices.DeleteFunc(problems, a.ignored)...)
	}
	if a.o.MeshConfig != "" {
		text, err := disk.Stream(a.o.MeshConfig, disk.MaxFile)
		if err != nil {
			return fmt.Errorf("--meshConfigFile: %w", err)
		}
		var rows source.Rows
		object, problems := a.read.decoder.DecodeMeshConfig(config.Document{File: a.o.MeshConfig, Line: 1, Text: text})
		if object != nil {
			rows.Objects = append(rows.Objects, object)
		}
		add(a.o.MeshConfig, rows, problems)
	}
	var all []*config.Object
	for _, t := range texts {
		rows, problems := a.read.file(t)
		all = append(all, rows.Objects...)
		add(t.name, rows, problems)
	}
	a.read.problems = nil
	serving := a.read.serving(all)
	add("pods", serving, a.read.problems)
	sink.Apply(update)
	return nil
}

// ignored reports whether a problem is left out because its document may be for another program.
func (a *analysis) ignored(p mesh.Problem) bool {
	return a.o.IgnoreUnknown && slices.Contains([]string{code.ForeignKind, code.NoKind, code.NotAnObject, code.Syntax}, p.Code) &&
		(p.Object.Kind == "file" || p.Code == code.ForeignKind)
}

// problems compiles the input, first as it is, then with proxies for known workloads, then with assumed proxies too, and returns the
// problems. Assumed proxies do not count for the question whether an object selects something.
func (a *analysis) problems(ctx context.Context, live *live) ([]mesh.Problem, error) {
	if err := a.turn(ctx, live); err != nil {
		return nil, err
	}
	crowd, selectors := known(a.graph, a.o.RootNamespace, cluster)
	told := map[proxyKey]bool{}
	connect := func() error {
		for w, p := range crowd.proxies {
			if !told[w] {
				told[w] = true
				a.graph.In.Proxies.Set(p.ID, p)
			}
		}
		return a.turn(ctx, live)
	}
	if err := connect(); err != nil {
		return nil, err
	}
	var out []mesh.Problem
	if a.knowsWorkloads() {
		out = slices.DeleteFunc(a.graph.Problems(), func(p mesh.Problem) bool { return !aboutSelecting(p) })
		for i := range out { // no proxy is connected here
			out[i].Message = strings.Replace(out[i].Message, "no connected gateway proxy", "no gateway's proxy that is known", 1)
		}
		out = append(out, a.world().scoped()...)
	}
	crowd.addAssumed(selectors, a.hasSecret)
	if err := connect(); err != nil {
		return nil, err
	}
	for _, p := range a.graph.Problems() {
		if !aboutSelecting(p) && !aboutOthers(p) {
			out = append(out, p)
		}
	}
	out = append(out, a.together()...)
	for i := range out {
		out[i] = a.read.placed(out[i])
	}
	slices.SortFunc(out, mesh.CompareProblem)
	return slices.Compact(out), nil
}

// turn computes all rows. If a row cannot be computed, this program has a bug, and the problems include it.
func (a *analysis) turn(ctx context.Context, live *live) error {
	a.graph.Store.Settle()
	a.graph.Remember()
	if live == nil {
		return ctx.Err()
	}
	return live.secrets(ctx)
}

// knowsWorkloads reports whether any running workloads are known.
func (a *analysis) knowsWorkloads() bool {
	some := a.read.known || a.o.Cluster != nil
	a.graph.Store.Read(func(tx *table.Tx) { some = some || table.Len(tx, a.graph.In.WorkloadEntries) > 0 })
	return some
}

func (a *analysis) hasSecret(namespace, name string) (is bool) {
	a.graph.Store.Read(func(tx *table.Tx) {
		_, is = table.Lookup(tx, a.graph.In.Secrets, config.Key{Kind: config.Secret, Namespace: namespace, Name: name})
	})
	return is
}

// aboutSelecting reports whether a problem says that an object selects no workload or proxy.
func aboutSelecting(p mesh.Problem) bool { return p.Code == code.NoRouter || p.Code == code.NoWorkload }

// aboutOthers reports whether a problem depends on something that this program cannot know: proxies' proven identities decide who may have
// a Secret, and issuers are not asked for keys.
func aboutOthers(p mesh.Problem) bool {
	return p.Code == code.HolderNotNamed || p.Code == code.NoKeys && !strings.HasSuffix(p.Field, ".jwks")
}
