package address_test

import (
	"strings"
	"testing"

	"fairway/internal/state/address"
)

func TestParse(t *testing.T) {
	a, err := address.Parse("etcd://a:2379,b:2379/x/y?tls=true&username=u&passwordFile=/p")
	if err != nil || a.Kind != "etcd" || a.Prefix != "/x/y" || strings.Join(a.Reach.URLs, " ") != "https://a:2379 https://b:2379" ||
		a.Reach.Username != "u" || a.Reach.PasswordFile != "/p" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := address.Parse("consul://127.0.0.1:8500?tokenFile=/t"); err != nil || a.Prefix != "/fairway/default/.state" ||
		a.Reach.URLs[0] != "http://127.0.0.1:8500" {
		t.Errorf("%+v, %v", a, err)
	}
	for _, text := range []string{"", "file"} {
		if a, err := address.Parse(text); err != nil || a.Kind != "" {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
	for text, want := range map[string]string{
		"redis://a:1":                        `--state: "redis://a:1"; want file, etcd://`,
		"etcd":                               `want file, etcd://`,
		"etcd://a":                           "HOST:PORT",
		"etcd://u:p@a:2379":                  "want username and passwordFile",
		"consul://a":                         `"http://a": want HOST:PORT`,
		"consul://a:8500?tokenFile=/t":       "want tls=true",
		"etcd://a:1?tls=maybe":               "tls: want true or false",
		"etcd://a:1?tls=false&caFile=x":      "are for TLS",
		"etcd://a:1?color=red":               `unknown option "color"`,
		"etcd://a:1?tls=true&tls=true":       "it is there 2 times",
		"etcd://a:1/a//b":                    "prefix",
		"etcd://a:1/a\x01":                   "prefix",
		"etcd://a:1?tls=%zz":                 "invalid URL escape",
		"etcd://a:1?tls=true&certFile=/only": "certFile, keyFile",
	} {
		if _, err := address.Parse(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--state") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("etcd://a:2379,b:2379/x?tls=true")
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := address.Parse(text); err == nil && a.Kind != "" && len(a.Reach.URLs) == 0 {
			t.Errorf("%q has no server", text)
		}
	})
}
