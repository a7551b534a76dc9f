package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

// data returns the data of a Secret or a ConfigMap of the pod's namespace; nothing if it is optional and missing.
func (p *Pod) data(ctx context.Context, kind, name string, optional *bool) (map[string][]byte, error) {
	var o struct {
		Data       map[string]any
		BinaryData map[string][]byte
	}
	at := "/api/v1/namespaces/" + p.namespace + "/" + kind + "/" + name
	if kind == "secrets" {
		var s corev1.Secret
		err := p.k.api.get(ctx, at, &s)
		if errors.Is(err, errGone) && optional != nil && *optional {
			return nil, nil
		}
		return s.Data, err
	}
	err := p.k.api.get(ctx, at, &o)
	if errors.Is(err, errGone) && optional != nil && *optional {
		return nil, nil
	}
	out := o.BinaryData
	if out == nil {
		out = map[string][]byte{}
	}
	for k, v := range o.Data {
		out[k] = fmt.Append(nil, v)
	}
	return out, err
}

// volume is where a volume of the pod's is on this machine.
func (p *Pod) volume(name string) string { return filepath.Join(p.dir, "volumes", name) }

// fillVolumes brings all volumes up to date. The error names the missing object.
func (p *Pod) fillVolumes(ctx context.Context) error {
	p.filling.Lock()
	defer p.filling.Unlock()
	for _, v := range p.latest().Spec.Volumes {
		if v.EmptyDir != nil {
			if err := os.MkdirAll(p.volume(v.Name), 0o755); err != nil {
				return err
			}
			if err := os.Chmod(p.volume(v.Name), 0o777); err != nil {
				return err
			}
			continue
		}
		files, err := p.contents(ctx, v)
		if err == nil {
			err = replace(p.volume(v.Name), files)
		}
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
	}
	return nil
}

// contents are the files of a volume that is made of objects.
func (p *Pod) contents(ctx context.Context, v corev1.Volume) (map[string][]byte, error) {
	switch {
	case v.Secret != nil:
		data, err := p.data(ctx, "secrets", v.Secret.SecretName, v.Secret.Optional)
		return chosen(data, v.Secret.Items), err
	case v.ConfigMap != nil:
		data, err := p.data(ctx, "configmaps", v.ConfigMap.Name, v.ConfigMap.Optional)
		return chosen(data, v.ConfigMap.Items), err
	case v.DownwardAPI != nil:
		return p.fields(v.DownwardAPI.Items)
	case v.Projected != nil:
		out := map[string][]byte{}
		for _, s := range v.Projected.Sources {
			some, err := p.projected(ctx, v.Name, s)
			if err != nil {
				return nil, err
			}
			maps.Copy(out, some)
		}
		return out, nil
	}
	return nil, errors.New("this kubelet has no volumes of its kind")
}

func (p *Pod) projected(ctx context.Context, volume string, s corev1.VolumeProjection) (map[string][]byte, error) {
	switch {
	case s.ServiceAccountToken != nil:
		token, err := p.token(ctx, volume, *s.ServiceAccountToken)
		return map[string][]byte{s.ServiceAccountToken.Path: []byte(token)}, err
	case s.Secret != nil:
		data, err := p.data(ctx, "secrets", s.Secret.Name, s.Secret.Optional)
		return chosen(data, s.Secret.Items), err
	case s.ConfigMap != nil:
		data, err := p.data(ctx, "configmaps", s.ConfigMap.Name, s.ConfigMap.Optional)
		return chosen(data, s.ConfigMap.Items), err
	case s.DownwardAPI != nil:
		return p.fields(s.DownwardAPI.Items)
	}
	return nil, errors.New("this kubelet does not project its kind")
}

func (p *Pod) fields(items []corev1.DownwardAPIVolumeFile) (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, i := range items {
		if i.FieldRef == nil {
			return nil, fmt.Errorf("%s: this kubelet knows fields of pods alone", i.Path)
		}
		value, err := p.field(i.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		out[i.Path] = []byte(value)
	}
	return out, nil
}

// chosen returns the keys that a volume names, under the paths that it gives them; all keys if it names none.
func chosen(data map[string][]byte, items []corev1.KeyToPath) map[string][]byte {
	if len(items) == 0 {
		return data
	}
	out := map[string][]byte{}
	for _, i := range items {
		if value, ok := data[i.Key]; ok {
			out[i.Path] = value
		}
	}
	return out
}

// token is a token of the pod's service account, bound to the pod. It is replaced when a fifth of its life, or less, is left.
type token struct {
	text         string
	begun, until time.Time
}

func (p *Pod) token(ctx context.Context, volume string, want corev1.ServiceAccountTokenProjection) (string, error) {
	key, pod := volume+"/"+want.Path, p.latest()
	has := p.tokens[key]
	if left := time.Until(has.until); left > has.until.Sub(has.begun)/5 {
		return has.text, nil
	}
	ask := authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if want.Audience != "" {
		ask.Spec.Audiences = []string{want.Audience}
	}
	ask.APIVersion, ask.Kind = "authentication.k8s.io/v1", "TokenRequest"
	at := "/api/v1/namespaces/" + p.namespace + "/serviceaccounts/" + pod.Spec.ServiceAccountName + "/token"
	if err := p.k.api.do(ctx, "POST", at, "application/json", ask, &ask); err != nil {
		return "", err
	}
	p.tokens[key] = token{ask.Status.Token, time.Now(), ask.Status.ExpirationTimestamp.Time}
	return ask.Status.Token, nil
}

// RenewTokens has the pod's tokens replaced now, as a kubelet does when they grow old. The ones before are true as long as
// they would have been.
func (p *Pod) RenewTokens(ctx context.Context) error {
	p.filling.Lock()
	clear(p.tokens)
	p.filling.Unlock()
	return p.fillVolumes(ctx)
}

// replace makes a folder hold these files and no others, at once for programs that follow the links, as a kubelet does: ..data leads to the
// current folder, and each file's name to its place there.
func replace(dir string, files map[string][]byte) error {
	data := filepath.Join(dir, "..data")
	if same(data, files) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..")
	if err == nil {
		err = os.Chmod(fresh, 0o755)
	}
	if err != nil {
		return err
	}
	first := map[string]bool{} // elements of paths
	for name, content := range files {
		to := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
		for dir := name; dir != "."; dir = filepath.Dir(dir) {
			if filepath.Dir(dir) == "." {
				first[dir] = true
			}
		}
	}
	before, _ := os.Readlink(data) // there may be none yet
	if err := os.Symlink(filepath.Base(fresh), data+".new"); err != nil {
		return err
	}
	if err := os.Rename(data+".new", data); err != nil {
		return err
	}
	if err := link(dir, first); err != nil || before == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, before))
}

// link has exactly these names lead into ..data.
func link(dir string, names map[string]bool) error {
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range there {
		if e.Name()[0] != '.' && !names[e.Name()] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	for name := range names {
		if e := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); e != nil && !os.IsExist(e) {
			err = errors.Join(err, e)
		}
	}
	return err
}

func same(dir string, files map[string][]byte) bool {
	there := 0
	err := filepath.WalkDir(dir+"/", func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		there++
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if want, ok := files[name]; err == nil && (!ok || !slices.Equal(content, want)) {
			err = errors.New("it is different")
		}
		return err
	})
	return err == nil && there == len(files)
}
