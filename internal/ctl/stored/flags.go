package stored

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairway/internal/config"
	"fairway/internal/ctl/cluster"
	"fairway/internal/ctl/output"
	"fairway/internal/printable"
	"fairway/internal/servers"
	"fairway/internal/store"
)

// Commands returns the verbs: get, apply, delete and edit. live asks the control planes that read the objects; flags name the cluster.
func Commands(live Live, flags *cluster.Flags) []*cobra.Command {
	return []*cobra.Command{getObjects(flags), applyObjects(live, flags), deleteObjects(flags), editObject(flags)}
}

// keeping holds the flags of the verbs that read and write objects.
type keeping struct {
	flags     *cluster.Flags
	folder    string
	inCluster bool
	force     bool // takes fields from other writers
	replace   bool // writes objects as a whole

	reach     servers.Reach
	layout    store.Layout
	namespace string
	format    string
	files     []string
	recursive bool
	dryRun    bool
}

// variable returns the environment variable of a flag of etcd's: FAIRWAY_STORE for --store.
func variable(flag string) string {
	return "FAIRWAY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// bind declares the flags that select an etcd.
func (k *keeping) bind(f *pflag.FlagSet) {
	f.StringVar(&k.folder, "folder", "", "folder of files that a control plane reads (its --configDir); without a flag of a place: the "+
		"rules of pilot-discovery dev if it runs, else the kubeconfig's cluster")
	f.StringSliceVar(&k.reach.URLs, "store", nil, "URLs of etcd's members, as https://etcd-1:2379,https://etcd-2:2379 (FAIRWAY_STORE; "+
		"each of the flags that follow has a variable of its own, too: FAIRWAY_STORE_CACERT)")
	f.StringVar(&k.reach.CAFile, "store-cacert", "", "file with the roots that verify etcd (default: the machine's)")
	f.StringVar(&k.reach.CertFile, "store-cert", "", "file with a certificate to show to etcd")
	f.StringVar(&k.reach.KeyFile, "store-key", "", "file with the key of --store-cert")
	f.StringVar(&k.reach.ServerName, "store-server-name", "", "name in etcd's certificate (default: the URL's host)")
	f.StringVar(&k.reach.Username, "store-user", "", "user of etcd")
	f.StringVar(&k.reach.PasswordFile, "store-password-file", "", "file with the password of --store-user")
	f.StringVar(&k.layout.Prefix, "store-prefix", store.DefaultPrefix, "what all keys begin with")
	f.StringVar(&k.layout.Mesh, "store-mesh", store.DefaultMesh, "the mesh of the objects")
	f.StringVarP(&k.namespace, "namespace", "n", "default", "namespace of objects that name none")
}

// environment sets flags that are not given from the environment.
func environment(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		isStore := flag.Name == "store" || strings.HasPrefix(flag.Name, "store-")
		if value := os.Getenv(variable(flag.Name)); err == nil && isStore && !flag.Changed && value != "" {
			if bad := flag.Value.Set(value); bad != nil {
				err = fmt.Errorf("%s: %w", variable(flag.Name), bad)
			}
		}
	})
	return err
}

// check validates the command line.
func (k *keeping) check(cmd *cobra.Command, formats ...string) error {
	if !slices.Contains(formats, k.format) {
		return fmt.Errorf("-o %s: want %s", printable.Text(k.format, printable.Short), strings.Join(formats, ", "))
	}
	explicit := cmd.Flags().Changed("store")
	if err := environment(cmd.Flags()); err != nil {
		return err
	}
	if err := k.choose(cmd, explicit); err != nil || len(k.reach.URLs) == 0 {
		return err
	}
	if err := (store.Reach{Reach: k.reach}).Validate(); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return k.layout.Validate()
}

// with opens the place and calls do with it.
func (k *keeping) with(ctx context.Context, do func(place) error) error {
	decoder, err := k.decoder()
	if err != nil {
		return output.Fail(err)
	}
	s, err := k.open(ctx, decoder)
	if err != nil {
		return output.Fail(err)
	}
	defer s.Close()
	if err := do(s); err != nil {
		return output.Fail(err)
	}
	return nil
}

func (k *keeping) decoder() (*config.Decoder, error) {
	return config.NewDecoder(config.Options{DefaultNamespace: k.namespace})
}

// all means every kind of the API.
const all = "all"

// wanted holds the kinds or objects that arguments name: KIND, KIND,KIND, KIND NAME..., KIND/NAME, KIND/NAMESPACE/NAME, all.
type wanted struct {
	kinds []config.Kind
	keys  []config.Key
}

func (k *keeping) wanted(args []string) (w wanted, err error) {
	kind := func(word string) (config.Kind, error) {
		found, ok := config.KindCalled(word, store.Kinds())
		if !ok {
			return "", fmt.Errorf("there is no kind %q; the kinds are %s", printable.Text(word, printable.Short), kindNames())
		}
		return found, nil
	}
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		for _, word := range strings.Split(args[0], ",") {
			if word == all {
				w.kinds = append(w.kinds, slices.DeleteFunc(store.Kinds(), store.Single)...)
				continue
			}
			found, err := kind(word)
			if err != nil {
				return w, err
			}
			w.kinds = append(w.kinds, found)
		}
		if len(args) == 1 && !(len(w.kinds) == 1 && store.Single(w.kinds[0])) {
			return w, nil
		}
		if len(w.kinds) != 1 {
			return w, errors.New("names are of one kind: want KIND NAME..., or KIND/NAME ...")
		}
		only := w.kinds[0]
		w.kinds = nil
		if store.Single(only) {
			w.keys = []config.Key{{Kind: only}}
			if len(args) > 1 {
				err = fmt.Errorf("there is one %s, which has no name", only)
			}
			return w, err
		}
		for _, name := range args[1:] {
			w.keys = append(w.keys, k.key(only, name))
		}
		return w, k.known(w.keys)
	}
	for _, arg := range args {
		word, name, _ := strings.Cut(arg, "/")
		found, err := kind(word)
		if err != nil {
			return w, err
		}
		key := k.key(found, name)
		if namespace, own, ok := strings.Cut(name, "/"); ok {
			key.Namespace, key.Name = namespace, own
		}
		w.keys = append(w.keys, key)
	}
	return w, k.known(w.keys)
}

func (k *keeping) key(kind config.Kind, name string) config.Key {
	key := config.Key{Kind: kind, Namespace: k.namespace, Name: name}
	if kind.ClusterWide() || store.Single(kind) {
		key.Namespace = ""
	}
	return key
}

// known refuses names that no object can have.
func (k *keeping) known(keys []config.Key) error {
	for _, key := range keys {
		if back, err := k.layout.Object(k.layout.Key(key)); err != nil || back != key {
			return fmt.Errorf("%s: no object can be called that", printable.Text(key.String(), printable.Short))
		}
	}
	return nil
}

func kindNames() string {
	var out []string
	for _, k := range store.Kinds() {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// titled returns an object's name as messages and arguments write it.
func titled(k config.Key) string {
	if store.Single(k.Kind) {
		return string(k.Kind)
	}
	return string(k.Kind) + "/" + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/")
}
