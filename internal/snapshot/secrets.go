package snapshot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"

	"fairway/internal/config"
	"fairway/internal/config/secret"
	"fairway/internal/source"
)

// credential is a Secret, or a ConfigMap with certificates, without its content.
type credential struct {
	Key             config.Key
	Stored          *config.Stored  `json:",omitempty"`
	Holders         secret.Holders  `json:",omitempty"`
	Gateways        secret.Gateways `json:",omitempty"`
	Pair, CA, Pulls bool            `json:",omitempty"` // which parts it has
	Shard           source.ShardKey
	File            string `json:",omitempty"`
	Line            int    `json:",omitempty"`
}

// withheld returns what a snapshot has of an object with a credential; false: it has none.
func withheld(at source.ShardKey, o *config.Object) (out credential, is bool) {
	c := o.Credential
	if c == nil {
		return out, o.Kind == config.Secret
	}
	out = credential{
		Key: o.Key, Holders: c.Holders, Gateways: c.Gateways, Shard: at, File: o.Ref.File, Line: o.Ref.Line,
		Pair: len(c.Chain) > 0, CA: len(c.CA) > 0, Pulls: len(c.Registries.PEM()) > 0,
	}
	if o.Stored != (config.Stored{}) {
		out.Stored = &o.Stored
	}
	return out, true
}

// object returns an object with a credential of the same parts that is good for nothing.
func (c credential) object(d *config.Decoder) (*config.Object, error) {
	p, err := placeholder()
	if err != nil {
		return nil, err
	}
	annotations, values := map[string]any{}, map[string]any{}
	if c.Holders != "" {
		annotations[secret.HoldersAnnotation] = string(c.Holders)
	}
	if c.Gateways != "" {
		annotations[secret.GatewaysAnnotation] = string(c.Gateways)
	}
	tree := map[string]any{"apiVersion": "v1", "kind": string(c.Key.Kind), "metadata": map[string]any{
		"name": c.Key.Name, "namespace": c.Key.Namespace, "annotations": annotations,
	}}
	put := func(name string, value []byte) {
		if c.Key.Kind == config.ConfigMap {
			values[name] = string(value)
		} else {
			values[name] = base64.StdEncoding.EncodeToString(value)
		}
	}
	if c.Pair {
		put("tls.crt", p.chain)
		put("tls.key", p.key)
	}
	if c.CA {
		put("ca.crt", p.chain)
	}
	if c.Pulls {
		tree["type"] = "kubernetes.io/dockerconfigjson"
		put(".dockerconfigjson", []byte(`{"auths":{"registry.invalid":{"auth":"bm9ib2R5Om5vdGhpbmc="}}}`))
	}
	tree["data"] = values
	cluster := ""
	if c.Stored != nil {
		cluster = c.Stored.Cluster
	}
	o, problems := d.DecodeTree(cluster, tree)
	if o == nil {
		return nil, fmt.Errorf("the %s of a snapshot cannot be made: %v", c.Key, problems)
	}
	w := o.Written()
	w.Ref.File, w.Ref.Line = c.File, c.Line
	if c.Stored != nil {
		w.Stored = *c.Stored
	}
	return o.At(w), nil
}

// pair is a certificate and its key, in PEM.
type pair struct{ chain, key []byte }

// placeholder is the certificate that stands for all others.
var placeholder = sync.OnceValues(newPair)

func newPair() (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "not in the snapshot"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		chain: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}
