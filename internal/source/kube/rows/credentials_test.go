package rows

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"fairway/internal/config"
	"fairway/test/rig"
)

// If the newer version of a Secret, or of a ConfigMap with authorities, is refused, the older one stays when it is listed again,
// and when it is listed once more after that.
func TestRefusedCredentialsAreKeptByLists(t *testing.T) {
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	meta := func(version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "infra", Name: "web", UID: "u1", ResourceVersion: version}
	}
	secret := func(version string, key []byte) runtime.Object {
		return &corev1.Secret{
			ObjectMeta: meta(version), Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": certificate, "tls.key": key},
		}
	}
	authorities := func(version string, ca []byte) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: meta(version), Data: map[string]string{"ca.crt": string(ca)}}
	}
	for _, c := range []struct {
		kind      config.Kind
		read      func(before Reader) Reader
		good, bad runtime.Object
	}{
		{config.Secret, func(before Reader) Reader { return Secrets(east(t), before) }, secret("1", key), secret("2", []byte("nonsense"))},
		{
			config.ConfigMap, func(before Reader) Reader { return ConfigMaps(east(t), before) },
			authorities("1", certificate), authorities("2", []byte("nonsense")),
		},
	} {
		var first Made
		r := c.read(nil)
		if problems := r.Set(c.good, &first); len(problems) > 0 || len(first.Rows.Objects) != 1 {
			t.Fatalf("the %s says %v and has %v", c.kind, first.Rows.Objects, problems)
		}
		r.Listed()
		for n := range 2 {
			var m Made
			r = c.read(r)
			problems := r.Set(c.bad.DeepCopyObject(), &m)
			r.Listed()
			if len(problems) == 0 || len(m.Rows.Objects) != 1 || m.Rows.Objects[0] != first.Rows.Objects[0] {
				t.Errorf("list %d of a %s that is refused says %v, with the problems %v", n+1, c.kind, m.Rows.Objects, problems)
			}
		}
	}
}
