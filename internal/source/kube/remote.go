package kube

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source/kube/answers"
	"fairway/internal/source/kube/rows"
)

// remoteLabel marks the Secrets that say how other clusters are reached, as Istio's multicluster guide has them: each key is
// a cluster's name, and its value a kubeconfig.
const remoteLabel = "istio/multiCluster=true"

// Bounds of such Secrets.
const (
	maxRemotes    = 100 // clusters in all
	maxKubeconfig = 64 << 10
)

// Remote is another cluster, and how a Secret says it is reached.
type Remote struct {
	Cluster string
	Secret  string // namespace/name
	Config  *rest.Config
	Sum     [sha256.Size]byte // of the kubeconfig: another sum is another way there
}

// remoteKind is the kind of the Secrets that say how other clusters are reached. Options.Remotes gets all clusters each time that
// they change, the first time before the kind counts as read. If several Secrets have a cluster, the first in order
// counts.
func remoteKind(o Options, c *answers.Clients) kind {
	return kind{
		name: "RemoteSecret", lost: func() {},
		find: fixed(c.Own(answers.Own{
			Resource: "secrets", Namespace: o.Namespace, Labels: remoteLabel, Empty: answers.Empty[corev1.Secret],
		})),
		read: func(before rows.Reader) rows.Reader { return newRemoteReader(o.Cluster, o.Remotes, before) },
	}
}

// remoteReader reads such Secrets. A kubeconfig that cannot be used leaves the one before it in force.
type remoteReader struct {
	own      string // the cluster that the Secrets are in
	onChange func([]Remote)
	remotes  map[rows.ID]map[string]Remote // by Secret and cluster
	before   map[rows.ID]map[string]Remote // of the reader before
	listing  bool
}

func newRemoteReader(own string, tell func([]Remote), before rows.Reader) *remoteReader {
	r := &remoteReader{own: own, onChange: tell, remotes: map[rows.ID]map[string]Remote{}, listing: true}
	if b, ok := before.(*remoteReader); ok {
		r.before = b.remotes
	}
	return r
}

func (r *remoteReader) Set(o runtime.Object, _ *rows.Made) (problems []mesh.Problem) {
	from := o.(*corev1.Secret)
	of := rows.ID{Namespace: from.Namespace, Name: from.Name}
	old := r.remotes[of]
	if r.listing {
		old = r.before[of]
	}
	now, room := map[string]Remote{}, maxRemotes
	for other, clusters := range r.remotes {
		if other != of {
			room -= len(clusters)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from.Data)) {
		one, err := r.remote(of, name, from.Data[name])
		if len(now) >= room {
			err = fmt.Errorf("there are %d clusters already, the most that are read", maxRemotes)
		}
		if err == nil {
			now[name] = one
			continue
		}
		message := "the cluster is not read: " + err.Error()
		if before, has := old[name]; has && len(now) < room {
			now[name] = before
			message = err.Error() + "; the cluster is read as the Secret said before"
		}
		problems = append(problems, mesh.Problem{
			Object: mesh.ObjectRef{Kind: "Secret", Namespace: of.Namespace, Name: of.Name},
			Field:  "data[" + printable.Text(name, printable.Short) + "]", Code: code.BadKubeconfig, Severity: mesh.Error,
			Message: message, Fix: "give it a kubeconfig with the cluster's address, its authorities, and a token or a certificate",
		})
	}
	r.remotes[of] = now
	r.hand()
	return problems
}

func (r *remoteReader) Remove(o runtime.Object, _ *rows.Made) {
	from := o.(*corev1.Secret)
	delete(r.remotes, rows.ID{Namespace: from.Namespace, Name: from.Name})
	r.hand()
}

func (r *remoteReader) Listed() {
	r.listing, r.before = false, nil
	r.hand()
}

// hand hands on all clusters, unless more are about to be read.
func (r *remoteReader) hand() {
	if r.listing {
		return
	}
	var all []Remote
	for _, of := range r.remotes {
		all = slices.AppendSeq(all, maps.Values(of))
	}
	slices.SortFunc(all, func(a, b Remote) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Secret, b.Secret))
	})
	all = slices.CompactFunc(all, func(a, b Remote) bool { return a.Cluster == b.Cluster })
	r.onChange(all)
}

// remote reads one key of a Secret.
func (r *remoteReader) remote(of rows.ID, name string, text []byte) (Remote, error) {
	out := Remote{Cluster: name, Secret: of.Namespace + "/" + of.Name, Sum: sha256.Sum256(text)}
	switch {
	case len(name) > 63 || strings.Trim(name, ".") == "" || !utf8.ValidString(name):
		return out, errors.New("the key is not a name of a cluster: want at most 63 letters, digits, '-', '_' and '.'")
	case name == r.own:
		return out, errors.New("this is the cluster that the Secret is in, which is read as it is")
	}
	var err error
	out.Config, err = remoteConfig(text)
	return out, err
}

// remoteConfig reads a kubeconfig, which anyone who may write Secrets may have written. It may name nothing on this
// machine, neither programs nor files, and must name the authority that it trusts.
func remoteConfig(text []byte) (*rest.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("the kubeconfig has %d bytes, %d are the most", len(text), maxKubeconfig)
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the kubeconfig is not UTF-8")
	}
	all, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be read: %s", printable.Text(err.Error(), printable.Long))
	}
	at := all.Contexts[all.CurrentContext]
	if at == nil {
		return nil, errors.New("the kubeconfig's current-context names no context of it")
	}
	cluster, user := all.Clusters[at.Cluster], all.AuthInfos[at.AuthInfo]
	if cluster == nil || user == nil {
		return nil, errors.New("the current context names a cluster or a user that the kubeconfig does not have")
	}
	if err := allowed(cluster, user); err != nil {
		return nil, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*all, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %s", printable.Text(err.Error(), printable.Long))
	}
	return config, nil
}

func allowed(cluster *api.Cluster, user *api.AuthInfo) error {
	if !strings.HasPrefix(cluster.Server, "https://") {
		return errors.New("server: want an address that begins with https://")
	}
	if cluster.ProxyURL != "" {
		return errors.New("proxy-url: the control plane calls the cluster's own address, and no proxy that a Secret names; leave it out")
	}
	for _, field := range []struct {
		name string
		said bool
	}{
		{"insecure-skip-tls-verify", cluster.InsecureSkipTLSVerify},
		{"certificate-authority", cluster.CertificateAuthority != ""},
		{"exec", user.Exec != nil},
		{"auth-provider", user.AuthProvider != nil},
		{"client-certificate", user.ClientCertificate != ""},
		{"client-key", user.ClientKey != ""},
		{"tokenFile", user.TokenFile != ""},
	} {
		if field.said {
			return fmt.Errorf("%s: a Secret's kubeconfig must not name programs or files, nor trust every server", field.name)
		}
	}
	return nil
}
