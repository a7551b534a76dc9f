package install

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairway/internal/kubeclient"
)

// Helm's names for the Secrets in which it keeps its releases.
const (
	recordType  corev1.SecretType = "helm.sh/release.v1"
	recordOwner string            = "helm"
	recordKey   string            = "release"
)

const (
	mostRecords = 10       // of a release, as Helm keeps them
	mostRecord  = 64 << 20 // bytes of one, unpacked
)

// release is Helm's description of an installation.
type release struct {
	Name        string          `json:"name,omitempty"`
	Info        *info           `json:"info,omitempty"`
	Chart       json.RawMessage `json:"chart,omitempty"`
	Config      Values          `json:"config,omitempty"` // the values that the user set
	Manifest    string          `json:"manifest,omitempty"`
	Hooks       json.RawMessage `json:"hooks,omitempty"`
	Version     int             `json:"version,omitempty"`
	Namespace   string          `json:"namespace,omitempty"`
	ApplyMethod string          `json:"apply_method,omitempty"`
}

// info describes the state of an installation.
type info struct {
	FirstDeployed    moment          `json:"first_deployed,omitzero"`
	LastDeployed     moment          `json:"last_deployed,omitzero"`
	Deleted          moment          `json:"deleted,omitzero"`
	Description      string          `json:"description,omitempty"`
	Status           string          `json:"status,omitempty"`
	RollbackRevision int             `json:"rollback_revision,omitempty"`
	Notes            string          `json:"notes,omitempty"`
	Resources        json.RawMessage `json:"resources,omitempty"`
}

// Helm's states of an installation, and its name for server-side apply.
const (
	deployed   = "deployed"
	superseded = "superseded"
	failed     = "failed"
	installing = "pending-install"
	upgrading  = "pending-upgrade"
	serverSide = "ssa"
)

// moment is a time. Older versions of Helm write an empty text for none.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(text []byte) error {
	if string(text) == `""` {
		return nil
	}
	return m.Time.UnmarshalJSON(text)
}

// records are the records of one release: a Secret for each time that it was installed, as Helm keeps them.
type records struct {
	secrets *kubeclient.Client[*corev1.Secret, *corev1.SecretList]
	release string
}

// last returns the newest record; nil: there is none.
func (r records) last(ctx context.Context) (*release, error) {
	all, err := r.all(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var newest *corev1.Secret
	highest := 0
	for i := range all {
		if n := versionOf(&all[i]); n >= highest {
			newest, highest = &all[i], n
		}
	}
	out, err := unpack(newest.Data[recordKey])
	if err != nil {
		return nil, fmt.Errorf("secret %s with Helm's record of the installation: %w", newest.Name, err)
	}
	return out, nil
}

func versionOf(s *corev1.Secret) int {
	n, _ := strconv.Atoi(s.Labels["version"])
	return n
}

func (r records) all(ctx context.Context) ([]corev1.Secret, error) {
	list, err := r.secrets.List(ctx, metav1.ListOptions{LabelSelector: "owner=" + recordOwner + ",name=" + r.release})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// write stores a release, and replaces the record of the same version.
func (r records) write(ctx context.Context, of *release) error {
	text, err := pack(of)
	if err != nil {
		return err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("sh.helm.release.v1.%s.v%d", of.Name, of.Version),
			Labels: map[string]string{
				"name": of.Name, "owner": recordOwner, "status": of.Info.Status, "version": strconv.Itoa(of.Version),
				"modifiedAt": strconv.FormatInt(time.Now().Unix(), 10),
			},
		},
		Type: recordType, Data: map[string][]byte{recordKey: text},
	}
	_, err = r.secrets.Update(ctx, s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = r.secrets.Create(ctx, s, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("store the record of the installation: %w", err)
	}
	return nil
}

// supersede marks earlier deployed versions as superseded, and deletes the oldest records.
func (r records) supersede(ctx context.Context, version int) error {
	all, err := r.all(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		switch n := versionOf(s); {
		case n >= version:
		case n <= version-mostRecords:
			err = r.secrets.Delete(ctx, s.Name, metav1.DeleteOptions{})
		case s.Labels["status"] == deployed:
			var old *release
			if old, err = unpack(s.Data[recordKey]); err == nil {
				old.Info.Status = superseded
				err = r.write(ctx, old)
			}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// drop deletes all records of the release.
func (r records) drop(ctx context.Context) error {
	all, err := r.all(ctx)
	for i := 0; i < len(all) && err == nil; i++ {
		if err = r.secrets.Delete(ctx, all[i].Name, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
			err = nil
		}
	}
	return err
}

// pack encodes a release as Helm does: JSON, compressed, as base64.
func pack(of *release) ([]byte, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	to := base64.NewEncoder(base64.StdEncoding, &b)
	z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	for _, step := range []func() error{func() error { _, err := z.Write(text); return err }, z.Close, to.Close} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func unpack(text []byte) (*release, error) {
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(z, mostRecord+1))
	if err != nil {
		return nil, err
	}
	if len(plain) > mostRecord {
		return nil, fmt.Errorf("it is longer than %d bytes", mostRecord)
	}
	out := new(release)
	if err := json.Unmarshal(plain, out); err != nil {
		return nil, err
	}
	if out.Info == nil {
		out.Info = new(info)
	}
	return out, nil
}
