package cli

import (
	"context"
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

// explainAccess adds to an error about credentials where this command takes them from.
func explainAccess(err error) error {
	switch {
	case errors.Is(err, server.ErrUnprotected):
		return badInput(fmt.Errorf("%w\nset %s in the environment of this command and of each weft worker, to a secret of your own; or add --nats-user NAME and set %s", err, tokenVariable, passwordVariable))
	case errors.Is(err, cluster.ErrCredentials):
		return fmt.Errorf("%w\nset %s, or %s and --nats-user NAME, as for the command that started the server; --nats-creds gives a credentials file, --nats-cert and --nats-key a certificate", err, tokenVariable, passwordVariable)
	}
	return err
}

// checkUser checks that a user has a password.
func (f *accessFlags) checkUser() error {
	if f.User != "" && os.Getenv(passwordVariable) == "" {
		return badInput(fmt.Errorf("--nats-user %s: set %s in the environment to the password", f.User, passwordVariable))
	}
	return nil
}

// dialServer connects to a server.
func (f *accessFlags) dialServer(ctx context.Context, a cluster.Access) (*cluster.Client, error) {
	if err := f.checkUser(); err != nil {
		return nil, err
	}
	client, err := cluster.Dial(ctx, a)
	return client, explainAccess(err)
}

// serveStore starts a NATS server with its store in dir. The returned access is for its clients.
func (f *accessFlags) serveStore(address, dir string) (*server.Server, cluster.Access, error) {
	if f.Credentials != "" {
		return nil, cluster.Access{}, badInput(errors.New("--nats-creds: the server of --serve does not support credentials files: use --nats-user or " + tokenVariable))
	}
	if err := f.checkUser(); err != nil {
		return nil, cluster.Access{}, err
	}
	s, err := server.Serve(server.Options{
		Dir: filepath.Join(dir, "nats"), Address: address, User: f.User, Password: os.Getenv(passwordVariable), Token: os.Getenv(tokenVariable),
		Cert: f.Cert, Key: f.Key, Log: func(text string) { fmt.Fprintln(os.Stderr, "weft: nats:", text) },
	})
	if err != nil {
		return nil, cluster.Access{}, explainAccess(fmt.Errorf("--serve: %w", err))
	}
	options := ""
	switch {
	case f.User != "":
		options = fmt.Sprintf(" --nats-user %s, and its password in %s", f.User, passwordVariable)
	case os.Getenv(tokenVariable) != "":
		options = ", and the token in " + tokenVariable
	}
	for _, url := range s.URLs() {
		fmt.Fprintf(os.Stderr, "weft: workers join with: weft worker %s%s\n", url, options)
	}
	a := f.accessTo(s.URLs()[0])
	a.Cert, a.Key = "", "" // they belong to the server
	return s, a, nil
}
