package lacking

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"fairway/internal/compile/input"
	"fairway/internal/compile/registry"
	"fairway/internal/compile/selects"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

// Declare declares the package's tables, which have only problems and no rows for readers.
func Declare(in *input.Tables, reg *registry.Tables) {
	declareCallers(in, reg)
	declarePodless(in, reg)
	declareUntargeted(in, reg)
}

func compareNothing(struct{}, struct{}) int { return 0 }

func compareAccount(a, b Account) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// unknown is the name in place of one that a workload has and that is not known. No account is called so.
const unknown = "*"

// accounts are indexes of the accounts of all workloads.
type accounts struct {
	known       *table.Table[Account, struct{}]
	byNamespace *table.Table[string, table.Rows[Account, struct{}]]
	namespaces  *table.Table[struct{}, table.Rows[string, struct{}]]
}

// declareAccounts finds the accounts of workloads while wanted has rows.
func declareAccounts(in *input.Tables, reg *registry.Tables, wanted *table.Table[config.Key, struct{}]) accounts {
	const name = "callers"
	objects := func(of *input.Objects) *table.Table[Account, struct{}] {
		return table.KeysWhile(wanted, of, name+"/"+of.Name(), compareAccount, func(k config.Key, o *config.Object) (out []Account) {
			for _, e := range Entries(o) {
				out = append(out, Account{k.Namespace, cmp.Or(e.GetServiceAccount(), unknown)})
			}
			return out
		})
	}
	workloads := table.KeysWhile(wanted, in.Workloads, name+"/workloads", compareAccount,
		func(k mesh.WorkloadKey, w *mesh.Workload) []Account {
			return []Account{{k.Namespace, cmp.Or(w.ServiceAccount, unknown)}}
		})
	proxies := table.KeysWhile(wanted, in.Proxies.Table, name+"/proxies", compareAccount,
		func(_ mesh.ProxyID, p mesh.Proxy) []Account {
			return []Account{{p.Namespace, cmp.Or(p.ServiceAccount, unknown)}}
		})
	services := table.KeysWhile(wanted, reg.Services, name+"/services", compareAccount,
		func(k mesh.ServiceKey, s *mesh.Service) []Account {
			return append(AccountsOf(s), Account{Namespace: k.Namespace})
		})
	namespaces := table.KeysWhile(wanted, in.Namespaces, name+"/namespaces", compareAccount,
		func(k mesh.NamespaceKey, _ mesh.Namespace) []Account { return []Account{{Namespace: k.Name}} })
	var a accounts
	a.known = table.Union(name, compareAccount, table.Same[struct{}], nil, table.Whole(workloads), table.Whole(services),
		table.Whole(namespaces), table.Whole(proxies), table.Whole(objects(in.ServiceEntries)), table.Whole(objects(in.WorkloadEntries)),
		table.Whole(objects(in.WorkloadGroups)))
	a.byNamespace = table.Index(a.known, name+"/namespace", cmp.Compare[string], func(of Account, _ struct{}) []string {
		return []string{of.Namespace}
	})
	a.namespaces = table.Index(a.byNamespace, name+"/all namespaces", compareNothing,
		func(string, table.Rows[Account, struct{}]) []struct{} { return []struct{}{{}} })
	return a
}

// AccountsOf returns the accounts that a service says its endpoints have.
func AccountsOf(s *mesh.Service) (out []Account) {
	for _, id := range slices.Concat(s.Identities, s.Accounts) {
		a, ok := AccountOf(strings.TrimPrefix(id, "spiffe://"))
		switch {
		case ok:
			out = append(out, a)
		case !strings.ContainsAny(id, "/.:"):
			out = append(out, Account{s.Key.Namespace, id})
		}
	}
	return out
}

// read is Accounts for a row.
type read struct {
	accounts
	r *table.Reader
}

func (a read) Has(of Account) bool { return table.Has(a.r, a.known, of) }

func (a read) Of(namespace string) (names iter.Seq[string], known, whole bool) {
	rows, known := table.Get(a.r, a.byNamespace, namespace)
	_, some := rows.Get(Account{namespace, unknown})
	return func(yield func(string) bool) {
		for of := range rows.All() {
			if of.Name != "" && of.Name != unknown && !yield(of.Name) {
				return
			}
		}
	}, known, !some
}

func (a read) Namespaces() iter.Seq[string] {
	rows, _ := table.Get(a.r, a.namespaces, struct{}{})
	return func(yield func(string) bool) {
		for namespace := range rows.All() {
			if !yield(namespace) {
				return
			}
		}
	}
}

// declareCallers notes callers of AuthorizationPolicies that no workload is. ServiceAccounts are not read, so accounts are only reported if
// they resemble one that a workload has.
func declareCallers(in *input.Tables, reg *registry.Tables) {
	naming := func(_ config.Key, o *config.Object) bool { return names(o) }
	wanted := table.DeriveWhere(in.AuthorizationPolicies, naming, "callers/wanted", config.CompareKey, table.Same[struct{}],
		func(_ *table.Reader, k config.Key, _ *config.Object, emit func(config.Key, struct{})) {
			emit(k, struct{}{})
		})
	known := declareAccounts(in, reg, wanted)
	clusters := table.Keys(in.Namespaces, "callers/clusters", compareNothing, func(mesh.NamespaceKey, mesh.Namespace) []struct{} {
		return []struct{}{{}}
	})
	table.DeriveWhere(in.AuthorizationPolicies, naming, in.AuthorizationPolicies.Name()+"/callers", config.CompareKey, table.Same[struct{}],
		func(r *table.Reader, _ config.Key, o *config.Object, _ func(config.Key, struct{})) {
			if !in.AllRead(r) {
				return
			}
			c := Callers{
				Accounts: read{known, r}, Domains: in.TrustDomains(r),
				AllNamespaces: table.Has(r, clusters, struct{}{}) && !in.SelectsNamespaces(r),
			}
			for _, p := range c.Problems(o) {
				r.Note(p)
			}
		})
}

// set is the labels of workloads of a namespace that differ only in labels of single pods.
type set struct {
	namespace string
	labels    mesh.Labels
}

func compareSet(a, b set) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.labels, b.labels))
}

// label is a label ("key=value") of workloads of a namespace; an empty pair means all workloads of the namespace.
type label struct{ namespace, pair string }

func compareLabel(a, b label) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.pair, b.pair))
}

// mostSets is how many sets of labels of a namespace are looked at for one that was meant.
const mostSets = 100

type setsByLabel = table.Table[label, table.Rows[set, struct{}]]

// declareSets finds the labels of pods, and those of the machines of WorkloadGroups, while wanted has rows.
func declareSets(in *input.Tables, wanted *table.Table[mesh.ServiceKey, struct{}], name string) *setsByLabel {
	pods := table.KeysWhile(wanted, in.Workloads, name+"/pods", compareSet, func(k mesh.WorkloadKey, w *mesh.Workload) []set {
		return []set{{k.Namespace, w.Labels.Without(ofOnePod)}}
	})
	groups := table.KeysWhile(wanted, in.WorkloadGroups, name+"/groups", compareSet, func(k config.Key, o *config.Object) []set {
		return []set{{k.Namespace, mesh.MakeLabels(config.Membership(o).GetLabels())}}
	})
	sets := table.Union(name+"/label sets", compareSet, table.Same[struct{}], nil, table.Whole(pods), table.Whole(groups))
	return table.Index(sets, name+"/labels", compareLabel, func(s set, _ struct{}) []label {
		out := []label{{namespace: s.namespace}}
		for _, pair := range s.labels.Pairs() {
			out = append(out, label{s.namespace, pair})
		}
		return out
	})
}

// some reports whether workloads of a namespace have all labels of a selector.
func some(r *table.Reader, sets *setsByLabel, namespace string, selector mesh.Labels) bool {
	rows, _ := table.Get(r, sets, label{namespace, selects.First(selector)})
	for s := range rows.All() {
		if s.labels.SelectedBy(selector) {
			return true
		}
	}
	return false
}

// declarePodless notes Kubernetes Services with a selector that selects no pod. A cluster has an EndpointSlice for each Service with a
// selector; a Service that has only empty slices selects no pod that has an address.
func declarePodless(in *input.Tables, reg *registry.Tables) {
	const name = "services/podless"
	empty := table.Keys(in.Serving, "services/empty slices", mesh.CompareServiceKey,
		func(_ input.SourceKey, s input.Source) []mesh.ServiceKey {
			if s.Slice == nil || len(s.Slice.Endpoints) > 0 || s.Slice.Key.Service.Cluster() == "" {
				return nil
			}
			return []mesh.ServiceKey{s.Slice.Key.Service}
		})
	sets := declareSets(in, empty, name)
	table.Derive(empty, name, mesh.CompareServiceKey, table.Same[struct{}],
		func(r *table.Reader, k mesh.ServiceKey, _ struct{}, _ func(mesh.ServiceKey, struct{})) {
			s, ok := table.Get(r, reg.Services, k)
			if !ok || s.Selects == "" || s.Selects.Without(ofOnePod) != s.Selects || table.Has(r, reg.EndpointsByHost, registry.KeyOf(s)) ||
				!in.AllRead(r) || some(r, sets, k.Namespace, s.Selects) { // pods that start, or machines that may come
				return
			}
			rows, _ := table.Get(r, sets, label{namespace: k.Namespace})
			looked := 0
			r.Note(Podless(s.Origin, s.Selects, func(yield func(mesh.Labels) bool) {
				for of := range rows.All() {
					if looked++; looked > mostSets || !yield(of.labels) {
						return
					}
				}
			}))
		})
}

// ofOnePod reports whether a label distinguishes pods that run the same.
func ofOnePod(name string) bool {
	switch name {
	case "pod-template-hash", "controller-revision-hash", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index",
		"batch.kubernetes.io/job-completion-index", "controller-uid", "batch.kubernetes.io/controller-uid", "job-name",
		"batch.kubernetes.io/job-name":
		return true
	}
	return false
}

// mostLooked is how many endpoints of a Service are looked at for the port that its target names.
const mostLooked = 1000

// declareUntargeted notes the ports of Kubernetes Services that lead to a name which no container has for a port: the cluster lists the
// pods as endpoints without that port.
func declareUntargeted(in *input.Tables, reg *registry.Tables) {
	naming := func(k mesh.ServiceKey, s *mesh.Service) bool { return s.TargetNames != "" && k.Cluster() != "" }
	table.DeriveWhere(reg.Services, naming, "services/target names", mesh.CompareServiceKey, table.Same[struct{}],
		func(r *table.Reader, k mesh.ServiceKey, s *mesh.Service, _ func(mesh.ServiceKey, struct{})) {
			if !in.AllRead(r) {
				return
			}
			endpoints, _ := table.Get(r, reg.EndpointsByHost, registry.KeyOf(s))
			if endpoints.Len() > mostLooked {
				return
			}
			for _, p := range s.Ports {
				target, named := s.TargetNames.Get(p.Name)
				if !named {
					continue
				}
				some, served := false, false
				for at, e := range endpoints.All() {
					if at.Service != k {
						continue
					}
					if some, served = true, e.Serves(p); served {
						break
					}
				}
				if some && !served {
					r.Note(Untargeted(s.Origin, fmt.Sprintf("spec.ports[%s].targetPort", cmp.Or(p.Name, "0")), target, p.Number, nil))
				}
			}
		})
}
