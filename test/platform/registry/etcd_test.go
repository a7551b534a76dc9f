package registry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"fairway/internal/config"
	"fairway/internal/source/etcd"
	"fairway/internal/store"
	"fairway/test/platform/registry/etcdserver"
	"fairway/test/rig"
)

// etcdSource is a source at work on an etcd.
type etcdSource struct {
	log *rig.Log
	*sink
	source *etcd.Source
}

const etcdName = "Etcd/test"

// followEtcd runs a source until the test ends.
func followEtcd(t *testing.T, o etcd.Options) *etcdSource {
	t.Helper()
	decoder, err := config.NewDecoder(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := &rig.Log{}
	w := &etcdSource{sink: newSink(), log: log}
	if w.source, err = etcd.New(etcdName, o, decoder, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	w.follow(t, w.source)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the source says\n%s", log)
		}
	})
	return w
}

// count is how many objects there are.
func (w *etcdSource) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.objects)
}

// await returns once there are so many objects, and none is stale.
func (w *etcdSource) await(t *testing.T, objects int) {
	t.Helper()
	rig.Eventually(t, func() error {
		if n := w.count(); n != objects {
			return fmt.Errorf("%d objects of %d\n%s", n, objects, w.told())
		}
		return w.isSynced(etcdName)
	})
}

// awaitStale returns once the source is stale for a reason.
func (w *etcdSource) awaitStale(t *testing.T, why string) {
	t.Helper()
	w.stale(t, etcdName, why)
}

// awaitTold returns once a text is among the problems.
func (w *etcdSource) awaitTold(t *testing.T, texts ...string) {
	t.Helper()
	rig.Eventually(t, func() error {
		told := w.told()
		for _, text := range texts {
			if !strings.Contains(told, text) {
				return fmt.Errorf("no %q among\n%s", text, told)
			}
		}
		return nil
	})
}

// seconds is the timeout of a rule, as it is in force.
func (w *etcdSource) text(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[ruleKey(name)]; o != nil {
		return string(o.Text)
	}
	return ""
}

func ruleKey(name string) config.Key {
	return config.Key{Kind: config.VirtualService, Namespace: "shop", Name: name}
}

// rule returns a VirtualService; its timeout distinguishes it from others of its name.
func rule(name string, seconds int) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%s.shop.svc.cluster.local]
  http:
  - timeout: %ds
    route: [{destination: {host: %s.shop.svc.cluster.local}}]
`, name, name, seconds, name)
}

// putRules stores rules, many in a transaction. It returns the last revision.
func putRules(t *testing.T, c *clientv3.Client, seconds int, names ...string) (revision int64) {
	t.Helper()
	for part := range slices.Chunk(names, 100) {
		var ops []clientv3.Op
		for _, name := range part {
			ops = append(ops, clientv3.OpPut(store.Layout{}.Key(ruleKey(name)), rule(name, seconds)))
		}
		answer, err := c.Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatal(err)
		}
		revision = answer.Header.Revision
	}
	return revision
}

func putKey(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func del(t *testing.T, c *clientv3.Client, key string, o ...clientv3.OpOption) {
	t.Helper()
	if _, err := c.Delete(t.Context(), key, o...); err != nil {
		t.Fatal(err)
	}
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("rule-%05d", i)
	}
	return out
}

// TestEtcdValues: objects come and go, and an invalid object harms no other one.
func TestEtcdValues(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	c, l := s.Client(t), store.Layout{}
	putRules(t, c, 1, "a", "b")
	putKey(t, c, "/fairway/other/networking.istio.io/VirtualService/shop/c", rule("c", 1)) // another mesh's
	w := followEtcd(t, etcd.Options{Reach: s.Reach()})
	w.await(t, 2)

	putKey(t, c, l.Key(config.Key{Kind: config.MeshConfig}), "accessLogFile: /dev/stdout\n")
	putKey(t, c, l.Key(config.Key{Kind: config.MeshNetworks}), "networks: {}\n")
	putKey(t, c, l.Key(config.Key{Kind: config.IngressClass, Name: "mesh"}), `{"apiVersion": "networking.k8s.io/v1",
"kind": "IngressClass", "metadata": {"name": "mesh"}, "spec": {"controller": "istio.io/ingress-controller"}}`)
	w.await(t, 5)

	putKey(t, c, l.Key(ruleKey("a")), strings.Replace(rule("a", 2), "timeout", "timeot", 1))
	w.awaitTold(t, `unknown field "timeot"; the version before it stays in force`, "(Etcd/test:"+l.Key(ruleKey("a"))+":7)")
	if text := w.text("a"); !strings.Contains(text, "timeout: 1s") {
		t.Errorf("in force is %s", text)
	}
	for _, bad := range []string{"", "\x00\xff\xfe", "- [", "3", "kind: Nothing\n", rule("b", 3), rule("a", 3) + "---\n" + rule("a", 4)} {
		putKey(t, c, l.Key(ruleKey("a")), bad)
		w.awaitTold(t, "the version before it stays in force")
		w.await(t, 5)
	}
	w.awaitTold(t, "the value holds 2 documents")
	putKey(t, c, l.Key(ruleKey("a")), rule("b", 3))
	w.awaitTold(t, "the value is VirtualService shop/b, which the key is not of")
	putKey(t, c, l.Key(ruleKey("a")), rule("a", 5))
	rig.Eventually(t, func() error {
		if w.told() != "" || !strings.Contains(w.text("a"), "5s") {
			return errors.New(w.told())
		}
		return nil
	})

	odd := []string{"\xff\xfe/\x00", "VirtualService", "networking.istio.io/Virtualservice/shop/x", "networking.istio.io/Gateway/a b/x",
		"security.istio.io/Gateway/shop/x", "networking.istio.io/Gateway/shop/x/y", strings.Repeat("long/", 5000)}
	for _, key := range odd {
		putKey(t, c, l.Root()+key, rule("x", 1))
	}
	w.awaitTold(t, "it is not a key of an object", "Gateway is of group gateway.networking.k8s.io or networking.istio.io",
		"want networking.istio.io/Gateway/NAMESPACE/NAME", "is not a kind that is read")
	for _, key := range odd {
		del(t, c, l.Root()+key)
	}
	del(t, c, l.Key(ruleKey("b")))
	w.await(t, 4)
	rig.Eventually(t, func() error {
		if told := w.told(); told != "" {
			return errors.New(told)
		}
		return nil
	})
	if w.wholes != 1 {
		t.Errorf("everything was read %d times", w.wholes)
	}

	// An object that was deleted and made again with an error is gone: the good version was of another object.
	putKey(t, c, l.Key(ruleKey("b")), rule("b", 1))
	w.await(t, 5)
	del(t, c, l.Key(ruleKey("b")))
	putKey(t, c, l.Key(ruleKey("b")), "kind: [")
	w.await(t, 4)

	// One transaction is one update.
	putRules(t, c, 1, "a", "b")
	w.await(t, 5)
	w.mu.Lock()
	before := w.updates
	w.mu.Unlock()
	putRules(t, c, 9, "a", "b")
	rig.Eventually(t, func() error {
		if !strings.Contains(w.text("b"), "9s") {
			return errors.New(w.text("b"))
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.updates - before; n != 1 {
		t.Errorf("a transaction of two objects made %d updates", n)
	}
}

// TestEtcdResume: a connection that ends is resumed at the same revision; everything is read again only if etcd has forgotten that
// revision.
func TestEtcdResume(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	c := s.Client(t)
	g, url := s.Gate(t)
	putRules(t, c, 1, "a", "b")
	reach := s.Reach()
	reach.URLs = []string{url}
	w := followEtcd(t, etcd.Options{Reach: reach})
	w.await(t, 2)
	g.Close()
	w.awaitStale(t, "etcd at "+url+": it cannot be reached")
	putRules(t, c, 2, "a", "c")
	del(t, c, store.Layout{}.Key(ruleKey("b")))
	if n := w.count(); n != 2 {
		t.Errorf("%d objects are left while etcd is away", n)
	}
	g.Open(t)
	w.await(t, 2)
	if !strings.Contains(w.text("a"), "2s") || w.text("c") == "" || w.wholes != 1 {
		t.Errorf("after a resume (%d lists)\n%s\n%s", w.wholes, w.text("a"), w.text("c"))
	}
	g.Close()
	w.awaitStale(t, "it cannot be reached")
	putRules(t, c, 3, "a", "d", "e")
	del(t, c, store.Layout{}.Key(ruleKey("c")))
	s.Compact(t)
	g.Open(t)
	w.await(t, 3)
	if !strings.Contains(w.text("a"), "3s") || w.text("c") != "" || w.wholes != 2 {
		t.Errorf("after a compaction (%d lists)\n%s\n%s", w.wholes, w.text("a"), w.text("c"))
	}

	// While nothing happens below the mesh's keys etcd says how far it is, so that a compaction costs no list.
	before := w.source.Stats().Reconnects
	for i := range 20 {
		putKey(t, c, "/elsewhere", fmt.Sprint(i))
	}
	rig.Eventually(t, func() error { return w.reaches(t, c) })
	s.Compact(t)
	g.Close()
	w.awaitStale(t, "it cannot be reached")
	g.Open(t)
	w.await(t, 3)
	if w.wholes != 2 || w.source.Stats().Reconnects == before {
		t.Errorf("%d lists, %d connections after %d", w.wholes, w.source.Stats().Reconnects, before)
	}
}

// reaches returns nil once the source's log says that it reconnected at a revision; it closes and opens nothing.
func (w *etcdSource) reaches(t *testing.T, c *clientv3.Client) error {
	t.Helper()
	now, err := c.Get(t.Context(), "/", clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	if at := w.source.Revision(); at < now.Header.Revision {
		return fmt.Errorf("the source is at revision %d of %d", at, now.Header.Revision)
	}
	return nil
}

// TestEtcdRestart: an etcd that is killed loses nothing, and one that comes back empty does not empty the mesh.
func TestEtcdRestart(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	all := names(20)
	putRules(t, s.Client(t), 1, all...)
	w := followEtcd(t, etcd.Options{Reach: s.Reach()})
	w.await(t, 20)
	s.Kill()
	w.awaitStale(t, "it cannot be reached")
	s.Restart(t, false)
	w.await(t, 20)
	putRules(t, s.Client(t), 2, all[0])
	rig.Eventually(t, func() error {
		if !strings.Contains(w.text(all[0]), "2s") {
			return errors.New("the change did not arrive")
		}
		return nil
	})
	if w.wholes != 1 {
		t.Errorf("everything was read %d times", w.wholes)
	}

	s.Kill()
	s.Restart(t, true)
	w.awaitStale(t, "20 objects that it does not have stay in force")
	w.awaitTold(t, "etcd lost it: the last state that was read stays in force")
	if err := w.isStale(etcdName, "its revision went back from"); err != nil {
		t.Error(err)
	}
	c := s.Client(t)
	putRules(t, c, 3, all[:5]...)
	w.awaitStale(t, "15 objects that it does not have stay in force")
	if n := w.count(); n != 20 || !strings.Contains(w.text(all[0]), "3s") {
		t.Errorf("%d objects, of which\n%s", n, w.text(all[0]))
	}
	putRules(t, c, 3, all[5:]...)
	w.await(t, 20)
	if told := w.told(); told != "" {
		t.Error(told)
	}
	del(t, c, store.Layout{}.Key(ruleKey(all[1])))
	w.await(t, 19)

	// If a server is filled again before the source is back, its revision may be as high as before; its contents show that it is another
	// one.
	g, url := s.Gate(t)
	reach := s.Reach()
	reach.URLs = []string{url}
	v := followEtcd(t, etcd.Options{Reach: reach})
	v.await(t, 19)
	g.Close()
	v.awaitStale(t, "it cannot be reached")
	s.Kill()
	s.Restart(t, true)
	c = s.Client(t)
	for range 5 {
		putRules(t, c, 4, all[:10]...)
	}
	for i := range 100 {
		putKey(t, c, "/elsewhere", fmt.Sprint(i))
	}
	g.Open(t)
	v.awaitStale(t, "10 objects that it does not have stay in force")
	if n := v.lost(); n > 0 {
		t.Errorf("%d objects went", n)
	}
}

// TestEtcdFailover: members end one after the other, and changes go on arriving.
func TestEtcdFailover(t *testing.T) {
	members := etcdserver.Cluster(t, 3, etcdserver.Options{})
	reach := members[0].Reach()
	for _, m := range members[1:] {
		reach.URLs = append(reach.URLs, m.URL())
	}
	putRules(t, members[0].Client(t), 1, "a")
	w := followEtcd(t, etcd.Options{Reach: reach})
	w.await(t, 1)
	for i, m := range members {
		m.Kill()
		c := members[(i+1)%3].Client(t)
		rig.Eventually(t, func() error { // two of three find a leader
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			_, err := c.Put(ctx, store.Layout{}.Key(ruleKey("a")), rule("a", 10+i))
			return err
		})
		rig.Eventually(t, func() error {
			if !strings.Contains(w.text("a"), fmt.Sprintf("%ds", 10+i)) {
				return errors.New("the change did not arrive")
			}
			return nil
		})
		m.Restart(t, false)
	}
	w.await(t, 1)
	if w.wholes != 1 { // each member was killed, so the watch went on at another one
		t.Errorf("%d lists", w.wholes)
	}
}

// TestEtcdLarge: values as large as etcd takes, also where an answer has no room for a page of them.
func TestEtcdLarge(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	c, l := s.Client(t), store.Layout{}
	large := func(name string) {
		putKey(t, c, l.Key(ruleKey(name)), rule(name, 1)+"# "+strings.Repeat("x", 1_400_000)+"\n")
	}
	for i := range 8 {
		large(fmt.Sprint("large-", i))
	}
	reach := s.Reach()
	reach.MaxAnswer = 4
	w := followEtcd(t, etcd.Options{Reach: reach})
	w.await(t, 8)
	g, url := s.Gate(t)
	reach.URLs = []string{url}
	v := followEtcd(t, etcd.Options{Reach: reach})
	v.await(t, 8)
	g.Close()
	v.awaitStale(t, "it cannot be reached")
	for i := range 20 { // the missed changes are larger than an answer may be
		large(fmt.Sprint("large-", i))
	}
	g.Open(t)
	v.await(t, 20)
	w.await(t, 20)
	if v.wholes != 1 {
		t.Errorf("everything was read %d times", v.wholes)
	}
}

// TestEtcdBounds: objects beyond the limit are left out, reported, and read once there is room.
func TestEtcdBounds(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	c, all := s.Client(t), names(30)
	putRules(t, c, 1, all[:20]...)
	w := followEtcd(t, etcd.Options{Reach: s.Reach(), MaxObjects: 15})
	w.await(t, 15)
	w.awaitTold(t, "there is more than is read: at most 15 keys")
	putRules(t, c, 1, all[20:]...)
	for _, name := range all[:20] {
		del(t, c, store.Layout{}.Key(ruleKey(name)))
	}
	w.await(t, 10)
	rig.Eventually(t, func() error {
		if told := w.told(); told != "" {
			return errors.New(told)
		}
		return nil
	})
	v := followEtcd(t, etcd.Options{Reach: s.Reach(), MaxBytes: 1000})
	v.awaitTold(t, "of 1000 bytes in all")
	putKey(t, c, store.Layout{}.Key(ruleKey(all[20])), rule(all[20], 2)+"# "+strings.Repeat("x", 1000))
	v.awaitTold(t, "there is no room for it")
	if !strings.Contains(v.text(all[20]), "timeout: 1s") {
		t.Errorf("in force is %s", v.text(all[20]))
	}
}

// TestEtcdUsers: if the user may not read, the source says so. Passwords are replaced while the source runs.
func TestEtcdUsers(t *testing.T) {
	s := etcdserver.Start(t, etcdserver.Options{})
	putRules(t, s.Client(t), 1, "a")
	s.Protect(t, "super", map[string]string{"pilot": "first"}, "/fairway/default/")
	c := s.Client(t)
	g, url := s.Gate(t)
	o := etcd.Options{Reach: s.Reach()}
	followEtcd(t, o).awaitStale(t, "it wants a user and a password: give username and passwordFile")
	dir := t.TempDir()
	o.URLs, o.Username, o.PasswordFile = []string{url}, "pilot", rig.Write(t, dir, "password", []byte("wrong\n"))
	other := o
	w := followEtcd(t, o)
	w.awaitStale(t, "it refuses user pilot or the password in "+o.PasswordFile)
	rig.Write(t, dir, "password", []byte("first\n"))
	w.await(t, 1)

	// The password is replaced at etcd, and in the file a while later: the rows that were read stay.
	if _, err := c.UserChangePassword(t.Context(), "pilot", "second"); err != nil {
		t.Fatal(err)
	}
	g.Close()
	g.Open(t)
	w.awaitStale(t, "it refuses user pilot")
	rig.Write(t, dir, "password", []byte("second"))
	w.await(t, 1)
	putRules(t, c, 2, "a", "b")
	w.await(t, 2)

	// A token that etcd forgot, as it does when it starts again, is no more than another connection.
	s.Kill()
	s.Restart(t, false)
	w.await(t, 2)
	if w.wholes != 1 {
		t.Errorf("everything was read %d times", w.wholes)
	}

	other.Mesh = "else"
	followEtcd(t, other).awaitStale(t, "user pilot may not have /fairway/else/: grant a role of the user's: "+
		"etcdctl role grant-permission ROLE read --prefix=true /fairway/else/")
	other.Mesh, other.PasswordFile = "", filepath.Join(dir, "nothing")
	followEtcd(t, other).awaitStale(t, "passwordFile: ")
}

// TestEtcdTLS: members are known by their certificates, and the source by its own, which is replaced while it runs.
func TestEtcdTLS(t *testing.T) {
	dir := t.TempDir()
	first, firstKey, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	second, secondKey, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	roots := rig.Write(t, dir, "roots", append(slices.Clone(first), second...))
	s := etcdserver.Start(t, etcdserver.Options{TLS: true, ClientRoots: roots})
	o := etcd.Options{Reach: s.Reach()}
	without := o
	o.CertFile, o.KeyFile = rig.Write(t, dir, "crt", first), rig.Write(t, dir, "key", firstKey)
	w := followEtcd(t, o)
	w.await(t, 0)
	followEtcd(t, without).awaitStale(t, "it cannot be reached")
	wrong := o
	wrong.CAFile = rig.Write(t, dir, "wrong", first)
	followEtcd(t, wrong).awaitStale(t, "certificate signed by unknown authority")
	rig.Write(t, dir, "key", secondKey)
	rig.Write(t, dir, "crt", second)
	rig.Eventually(t, func() error {
		if !strings.Contains(w.log.String(), "connecting anew") {
			return errors.New("the new certificate is not used")
		}
		return nil
	})
	w.await(t, 0)
	if err := os.Remove(o.KeyFile); err != nil {
		t.Fatal(err)
	}
	w.awaitStale(t, "certFile, keyFile: ")
	rig.Write(t, dir, "key", secondKey)
	w.await(t, 0)
}
