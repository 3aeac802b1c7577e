package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/experiment/cluster"
	"github.com/weftlab/weft/experiment/cluster/server"
)

// accessFlags are the credentials for a NATS server. A password and a token come
// from the environment, since every user can see the arguments of a process.
type accessFlags struct{ cluster.Access }

// Environment variables.
const (
	passwordVariable = "WEFT_NATS_PASSWORD"
	tokenVariable    = "WEFT_NATS_TOKEN"
)

// accessPrefix is the prefix of these flags' names.
const accessPrefix = "nats-"

func (f *accessFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.Credentials, "nats-creds", "", "credentials file for the NATS server")
	c.Flags().StringVar(&f.User, "nats-user", "", "user of the NATS server; the password comes from "+passwordVariable+", a token from "+tokenVariable)
	c.Flags().StringVar(&f.CA, "nats-ca", "", "PEM file of the authority that signed the NATS server's certificate")
	c.Flags().StringVar(&f.Cert, "nats-cert", "", "PEM file of this side's certificate for the NATS server")
	c.Flags().StringVar(&f.Key, "nats-key", "", "PEM file of that certificate's key")
}

// accessTo returns the access to the server at a URL.
func (f *accessFlags) accessTo(url string) cluster.Access {
	a := f.Access
	a.URL, a.Password, a.Token = url, os.Getenv(passwordVariable), os.Getenv(tokenVariable)
	a.Notice = func(text string) { fmt.Fprintln(os.Stderr, "weft:", text) }
	return a
}

// serveStore starts a NATS server with its store in dir. The returned access is for its clients.
func (f *accessFlags) serveStore(address, dir string) (*server.Server, cluster.Access, error) {
	if f.Credentials != "" {
		return nil, cluster.Access{}, badInput(errors.New("--nats-creds: the server of --serve does not support credentials files: use --nats-user or " + tokenVariable))
	}
	s, err := server.Serve(server.Options{
		Dir: filepath.Join(dir, "nats"), Address: address, User: f.User, Password: os.Getenv(passwordVariable), Token: os.Getenv(tokenVariable),
		Cert: f.Cert, Key: f.Key, Log: func(text string) { fmt.Fprintln(os.Stderr, "weft: nats:", text) },
	})
	if err != nil {
		return nil, cluster.Access{}, fmt.Errorf("--serve: %w", err)
	}
	for _, url := range s.URLs() {
		fmt.Fprintf(os.Stderr, "weft: workers join with: weft worker %s\n", url)
	}
	a := f.accessTo(s.URLs()[0])
	a.Cert, a.Key = "", "" // they belong to the server
	return s, a, nil
}
