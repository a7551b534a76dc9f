package secrets_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairway/internal/agent/secrets"
	"fairway/internal/identity"
)

// keeper makes a world where an agent had a certificate, and roots, one of them another issuer's with a CRL, and has written all of
// it; its authority is away.
func keeper(t *testing.T) (w *world, o secrets.Options, serial string, roots, list []byte) {
	t.Helper()
	w = newWorld(t)
	w.join(t, web)
	o = w.options(t)
	o.Authority.OutputDir, o.Authority.Timeout = filepath.Join(w.dir, "out"), 200*time.Millisecond
	s, stop := runs(t, o)
	must(t, s.Renew(bounded(t)))
	other := newIssuer(t, "other")
	roots, list = bytes.Join([][]byte{w.ca.Roots(), other.pem}, nil), other.list(t, 7)
	must(t, s.TakeBundle(bytes.Join([][]byte{roots, list}, nil)))
	serial = statusOf(t, s, secrets.DefaultName).Serial
	stop()
	o.Authority.Addresses, o.Authority.ServerName = []string{"127.0.0.1:1"}, "istiod.istio-system.svc"
	return w, o, serial, roots, list
}

// TestAKeptCertificateIsServedInAnOutage: it is served with its roots and their CRLs, and shown to the control plane. When the
// authority is back, another one replaces it.
func TestAKeptCertificateIsServedInAnOutage(t *testing.T) {
	w, o, serial, roots, list := keeper(t)
	o.Expect = web
	s, stop := runs(t, o)
	if got := leafOf(t, connect(t, o.Socket).ask("default").next()); got.SerialNumber.Text(16) != serial ||
		got.URIs[0].String() != web.String() {
		t.Errorf("served is %s of %v, kept was %s", got.SerialNumber.Text(16), got.URIs, serial)
	}
	v := connect(t, o.Socket).ask("ROOTCA").next().GetValidationContext()
	if !bytes.Equal(v.GetTrustedCa().GetInlineBytes(), roots) || !bytes.Equal(v.GetCrl().GetInlineBytes(), list) {
		t.Errorf("believed is %s", v)
	}
	must(t, s.Ready())
	if err := s.Renew(bounded(t)); err == nil {
		t.Error("renewed by nobody")
	}
	must(t, s.Ready())
	if c := statusOf(t, s, secrets.DefaultName); c.Serial != serial || c.Error == "" {
		t.Errorf("%+v", c)
	}
	stop()

	o.Authority.Addresses = []string{w.address}
	again := run(t, o)
	must(t, again.Renew(bounded(t)))
	must(t, again.Ready())
	if c := statusOf(t, again, secrets.DefaultName); c.Serial == serial || c.Error != "" {
		t.Errorf("after the outage: %+v", c)
	}
}

// TestAKeptCertificateThatTheAuthorityRefuses: it has another root, and admits the workload by a new token.
func TestAKeptCertificateThatTheAuthorityRefuses(t *testing.T) {
	_, o, serial, _, _ := keeper(t)
	w := newWorld(t)
	w.join(t, web)
	next := w.options(t)
	next.Authority.OutputDir, next.Log = o.Authority.OutputDir, o.Log
	s := run(t, next)
	connect(t, next.Socket).ask("default").next()
	ctx := bounded(t)
	for statusOf(t, s, secrets.DefaultName).Serial == serial && ctx.Err() == nil {
		_ = s.Renew(ctx) // refused once
	}
	must(t, ctx.Err())
	must(t, s.Ready())
}

// TestAKeptCertificateThatIsNoUse is not served, and the log says why; the agent waits for the authority as ever.
func TestAKeptCertificateThatIsNoUse(t *testing.T) {
	for why, c := range map[string]struct {
		want   string
		change func(t *testing.T, w *world, o *secrets.Options)
	}{
		"another account": {
			"service account is shop-admin",
			func(_ *testing.T, _ *world, o *secrets.Options) { o.Expect = identity.ID{ServiceAccount: "shop-admin"} },
		},
		"another namespace": {
			"namespace is bank",
			func(_ *testing.T, _ *world, o *secrets.Options) { o.Expect = identity.ID{Namespace: "bank"} },
		},
		"another trust domain": {
			"trust domain is other",
			func(_ *testing.T, _ *world, o *secrets.Options) { o.Expect = identity.ID{TrustDomain: "other"} },
		},
		"over": {"not valid by this machine's clock", func(_ *testing.T, _ *world, o *secrets.Options) {
			o.Now = func() time.Time { return time.Now().Add(400 * 24 * time.Hour) }
		}},
		"another key": {"private key does not match", func(t *testing.T, w *world, o *secrets.Options) {
			_, other, _, _, _ := keeper(t)
			copyFile(t, filepath.Join(other.Authority.OutputDir, "key.pem"), filepath.Join(o.Authority.OutputDir, "key.pem"))
		}},
		"other roots": {"does not lead to the roots", func(t *testing.T, w *world, o *secrets.Options) {
			w.write(t, o, "root-cert.pem", newIssuer(t, "stranger").pem)
		}},
		"no roots": {"root-cert.pem", func(t *testing.T, w *world, o *secrets.Options) { w.write(t, o, "root-cert.pem", []byte("hello")) }},
		"half": {"cert-chain.pem", func(t *testing.T, w *world, o *secrets.Options) {
			w.write(t, o, "cert-chain.pem", []byte("-----BEGIN CERT"))
		}},
		"not alone": {"may be written by others", func(t *testing.T, w *world, o *secrets.Options) {
			must(t, os.Chmod(filepath.Join(o.Authority.OutputDir, "key.pem"), 0o622))
		}},
		"a link": {"may be written by others", func(t *testing.T, w *world, o *secrets.Options) {
			at := filepath.Join(o.Authority.OutputDir, "root-cert.pem")
			must(t, os.Rename(at, at+".elsewhere"))
			must(t, os.Symlink(at+".elsewhere", at))
		}},
	} {
		t.Run(why, func(t *testing.T) {
			w, o, _, _, _ := keeper(t)
			c.change(t, w, &o)
			s := run(t, o)
			w.log.Await(t, "is not served")
			if said := w.log.String(); !strings.Contains(said, c.want) {
				t.Errorf("the log does not say %q:\n%s", c.want, said)
			}
			if s.Ready() == nil {
				t.Error("ready")
			}
		})
	}
}

// TestNothingKept is not a mistake.
func TestNothingKept(t *testing.T) {
	w := newWorld(t)
	w.join(t, web)
	o := w.options(t)
	o.Authority.OutputDir = filepath.Join(w.dir, "never written")
	must(t, run(t, o).Renew(bounded(t)))
	if strings.Contains(w.log.String(), "kept") {
		t.Error(w.log)
	}
}

func (w *world) write(t *testing.T, o *secrets.Options, name string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(o.Authority.OutputDir, name), content, 0o600))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, content, 0o600))
}
