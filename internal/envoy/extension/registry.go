package extension

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// docker is Docker's config.json, which Secrets of type kubernetes.io/dockerconfigjson hold too.
type docker struct {
	Auths map[string]login `json:"auths"`
}

// login is what one registry is shown.
type login struct {
	Auth     string `json:"auth,omitempty"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// errNoDocker never holds a word of what could not be read.
var errNoDocker = errors.New("the credentials of registries are no JSON of Docker's form")

// registryOf is the registry that an entry is for, or that an address leads to: "registry.example.com", or an address of an older form.
func registryOf(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	name, _, _ = strings.Cut(name, "/")
	if name == "index.docker.io" || name == "docker.io" {
		return "registry-1.docker.io"
	}
	return name
}

// of finds the entry for a registry; of several the first by name.
func (d docker) of(registry string) (name string, is bool) {
	for _, name := range slices.Sorted(maps.Keys(d.Auths)) {
		if registryOf(name) == registry {
			return name, true
		}
	}
	return "", false
}

// Registry is the registry of an image; empty: the module comes from elsewhere.
func (m *Module) Registry() string {
	image, is := strings.CutPrefix(m.URL, "oci://")
	if !is {
		return ""
	}
	return registryOf(image)
}

// Shown is what of a Docker configuration an agent needs to pull from a registry, in the same form: nobody is sent what others are
// shown. Empty: it holds nothing for that one.
func Shown(config []byte, registry string) string {
	var d docker
	if json.Unmarshal(config, &d) != nil {
		return ""
	}
	name, is := d.of(registry)
	if !is {
		return ""
	}
	out, err := json.Marshal(docker{map[string]login{name: d.Auths[name]}})
	if err != nil {
		return ""
	}
	return string(out)
}

// Login reads who asks a registry, of a Docker configuration; empty: nobody in particular.
func Login(config []byte, registry string) (user, password string, err error) {
	var d docker
	if json.Unmarshal(config, &d) != nil {
		return "", "", errNoDocker
	}
	name, is := d.of(registry)
	if !is {
		return "", "", nil
	}
	a := d.Auths[name]
	if a.Auth == "" {
		return a.Username, a.Password, nil
	}
	text, err := base64.StdEncoding.DecodeString(a.Auth)
	user, password, ok := strings.Cut(string(text), ":")
	if err != nil || !ok {
		return "", "", fmt.Errorf("the credentials of %s are not user:password in base64", registry)
	}
	return user, password, nil
}
