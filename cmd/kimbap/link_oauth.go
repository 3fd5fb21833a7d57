package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// signInFlags are those of link for a service whose key is got by a sign-in.
type signInFlags struct {
	id, client string
	scopes     []string
	device     bool
	port       int
	token      bool
}

func (f *signInFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.id, "client-id", "", "OAuth: the `ID` of your client at the provider; prompts for its secret")
	flags.StringVar(&f.client, "client", "", "OAuth: a JSON `FILE` with client_id and client_secret, as Google gives one")
	flags.StringArrayVar(&f.scopes, "scope", nil, "OAuth: ask for this `SCOPE` instead of the service's; may be repeated")
	flags.BoolVar(&f.device, "device", false, "OAuth: sign in on another device")
	flags.IntVar(&f.port, "port", 0, "OAuth: the `PORT` of this machine that the browser returns to (default any free one)")
	flags.BoolVar(&f.token, "token", false, "OAuth: store an access token that you have, without a sign-in")
}

// given reports whether any of them says that somebody signs in.
func (f *signInFlags) given() bool {
	return f.id != "" || f.client != "" || len(f.scopes) > 0 || f.device || f.port != 0
}

// key is the key of a service: what is typed, piped or in a file, or the grant of a sign-in.
func (c *cli) key(ctx context.Context, a *app.App, s *app.SignInOffer, name, file string, f *signInFlags) (secret runtime.Secret, signedIn bool, err error) {
	if err := f.contradict(s, name, file); err != nil {
		return runtime.Secret{}, false, err
	}
	inHand := f.client == "" && f.id == "" && (file != "" || !c.inTTY && !f.given())
	if s == nil || f.token || inHand && !s.Machine {
		secret, err = c.keyInHand(ctx, a, s, name, file, f)
		return secret, false, err
	}
	who := app.OAuthClient{}
	if inHand {
		who, err = c.clientInHand(ctx, s, file)
	} else {
		who, err = c.oauthClient(ctx, s, f)
	}
	if err != nil {
		return runtime.Secret{}, false, err
	}
	secret, err = a.SignIns().SignIn(ctx, s, app.SignInOptions{Client: who, Scopes: f.scopes, Device: f.device || !s.Browser && !s.Machine, Port: f.port, Show: c.sayWhere, Less: c.sayLess})
	return secret, err == nil, err
}

// contradict refuses flags of which one would go unheard.
func (f *signInFlags) contradict(s *app.SignInOffer, name, file string) error {
	link := "kimbap link " + runtime.Quote(name)
	switch {
	case s == nil: // its key is given, which keyInHand says
		return nil
	case f.token && f.given():
		return usage(link+" --token", "--token is for an access token that you have, and the other flags are for a sign-in: give one of them")
	case f.client != "" && f.id != "":
		return usage(link+" --client "+runtime.Quote(f.client), "--client and --client-id both say which client: give one of them")
	case f.token || file == "":
		return nil
	case !s.Machine && f.given():
		return usage(link+" --file "+runtime.Quote(file), "--file is a grant or a token that you have, and the other flags are for a sign-in: give one of them")
	case s.Machine && (f.client != "" || f.id != ""):
		return usage(link+" --file "+runtime.Quote(file), "--file is the client of %s, as is what --client or --client-id says: give one of them", name)
	}
	return nil
}

// keyInHand is a key that somebody has: no sign-in is needed for it.
func (c *cli) keyInHand(ctx context.Context, a *app.App, s *app.SignInOffer, name, file string, f *signInFlags) (runtime.Secret, error) {
	what := "key for " + name
	switch {
	case s == nil && (f.given() || f.token):
		if e := runtime.AsError(a.Known(name)); e != nil {
			return runtime.Secret{}, usage(e.Hint, "%s", e.Msg)
		}
		return runtime.Secret{}, usage("kimbap link "+runtime.Quote(name), "the key of %s is no OAuth grant: it is given, not signed in for", name)
	case s == nil:
		return c.readKey(ctx, file, what)
	case f.token:
		return c.readKey(ctx, file, "access token for "+name)
	}
	return c.grantOrToken(ctx, a, s, file, what)
}

// sayWhere tells a person where to agree.
func (c *cli) sayWhere(url, code, redirect string) {
	if code != "" {
		c.say("on any device open %s and type there:", url)
		fmt.Fprintln(c.out, code)
	} else {
		c.say("open this in a browser on this machine, and agree there (the client must allow %s):", redirect)
		fmt.Fprintln(c.out, url)
	}
	c.say("waiting for you; Ctrl-C ends it")
}

// sayLess tells a person what was not granted. The words are those of the service file, or the
// person's own.
func (c *cli) sayLess(scopes []string) {
	c.say("warning: the provider does not name these scopes among those that it granted, so what needs them may be refused: %s", strings.Join(scopes, " "))
}

// oauthFile is a file of a client, or of a grant of elsewhere: as Google gives them, or plain.
type oauthFile struct {
	Installed    *oauthFile `json:"installed"`
	Web          *oauthFile `json:"web"`
	ClientID     string     `json:"client_id"`
	ClientSecret string     `json:"client_secret"`
	RefreshToken string     `json:"refresh_token"`
}

func parseOAuthFile(data []byte) (oauthFile, bool) {
	var f oauthFile
	if json.Unmarshal(data, &f) != nil {
		return f, false
	}
	if f.Installed != nil {
		f = *f.Installed
	} else if f.Web != nil {
		f = *f.Web
	}
	return f, f.ClientID != ""
}

// oauthClient is who kimbap is at the provider: as the flags say, as the stored grant has it,
// or as somebody types it.
func (c *cli) oauthClient(ctx context.Context, s *app.SignInOffer, f *signInFlags) (app.OAuthClient, error) {
	switch {
	case f.client != "":
		data, err := c.readAll(ctx, f.client, "OAuth client")
		if err != nil {
			return app.OAuthClient{}, err
		}
		file, ok := parseOAuthFile(data)
		if !ok {
			return app.OAuthClient{}, usage(`give a file like {"client_id": "…", "client_secret": "…"}`, "%s is not the file of an OAuth client", runtime.Quote(f.client))
		}
		return app.OAuthClient{ID: file.ClientID, Secret: runtime.NewSecret(file.ClientSecret)}, nil
	case f.id == "" && s.Client.ID != "":
		return c.sameClient(s), nil
	}
	t, err := openTerminal()
	if err != nil {
		return app.OAuthClient{}, usage("kimbap link "+s.Service+" --client FILE", "nobody can be asked for the OAuth client here")
	}
	defer t.close()
	id := f.id
	if id == "" {
		c.say(clientWanted(s), s.Service)
		if id, err = t.text(ctx, "client id"); err != nil {
			return app.OAuthClient{}, err
		}
	}
	if id == "" {
		return app.OAuthClient{}, usage("kimbap link "+s.Service+" --client-id ID", "there is no client without an id")
	}
	what := "client secret (empty for a public client)"
	if s.Machine {
		what = "client secret"
	}
	secret, err := t.secret(ctx, what)
	return app.OAuthClient{ID: id, Secret: secret}, err
}

// sameClient is the one of the stored grant.
func (c *cli) sameClient(s *app.SignInOffer) app.OAuthClient {
	of := "the sign-in before"
	if s.Machine {
		of = "before"
	}
	c.say("with the client of %s: %s", of, s.Client.ID)
	return s.Client
}

// clientWanted says which client somebody is asked for.
func clientWanted(s *app.SignInOffer) string {
	if s.Machine {
		return "%s gets its tokens by a client that you have registered at the provider, and that it allows client credentials"
	}
	return "%s signs in with OAuth, by a client that you have registered at the provider (of the kind desktop or native)"
}

// clientInHand is a client that is given tokens itself, from a file or stdin; or the one of before.
// A secret alone is not taken: it would be stored as a token, and go to the API.
func (c *cli) clientInHand(ctx context.Context, s *app.SignInOffer, file string) (app.OAuthClient, error) {
	data, err := c.readAll(ctx, file, "client of "+s.Service)
	if err != nil {
		return app.OAuthClient{}, err
	}
	if strings.TrimSpace(string(data)) == "" && s.Client.ID != "" {
		return c.sameClient(s), nil
	}
	f, ok := parseOAuthFile(data)
	if !ok {
		return app.OAuthClient{}, usage("kimbap link "+runtime.Quote(s.Service)+" --client FILE; an access token that you have: --token",
			`%s is linked by its OAuth client, in JSON: {"client_id": "…", "client_secret": "…"}`, s.Service)
	}
	return app.OAuthClient{ID: f.ClientID, Secret: runtime.NewSecret(f.ClientSecret)}, nil
}

// grantOrToken reads what is piped or in a file: a grant of elsewhere, in JSON, or an access
// token.
func (c *cli) grantOrToken(ctx context.Context, a *app.App, s *app.SignInOffer, file, what string) (runtime.Secret, error) {
	data, err := c.readAll(ctx, file, what)
	if err != nil {
		return runtime.Secret{}, err
	}
	switch text := strings.TrimSpace(string(data)); {
	case text == "" && file == "": // nobody has piped anything in
		return runtime.Secret{}, usage("kimbap link "+s.Service+" --client FILE", "nothing came on stdin, and %s signs in at a terminal, or by the client of a file", s.Service)
	case !strings.HasPrefix(text, "{"):
		token, err := secretFrom(data)
		if err != nil {
			return runtime.Secret{}, err
		}
		return c.keyOf(token, false)
	}
	f, ok := parseOAuthFile(data)
	if !ok || f.RefreshToken == "" {
		return runtime.Secret{}, usage("kimbap link "+s.Service+" --client FILE, which signs in", "the JSON holds no client_id with a refresh_token")
	}
	return a.SignIns().Renew(ctx, s, app.OAuthClient{ID: f.ClientID, Secret: runtime.NewSecret(f.ClientSecret)}, runtime.NewSecret(f.RefreshToken))
}

// readAll reads a file, or stdin, up to what a secret may be long, and drops a byte order mark. A
// file may be a pipe that gives nothing yet: Ctrl-C ends the waiting for either.
func (c *cli) readAll(ctx context.Context, file, what string) ([]byte, error) {
	if file == "" || file == "-" {
		data, err := awaited(ctx, func() ([]byte, error) { return io.ReadAll(io.LimitReader(c.in, mostKey)) })
		return unmarked(data), err
	}
	data, err := awaited(ctx, func() ([]byte, error) { return system.ReadUpTo(file, mostKey) })
	if err != nil && ctx.Err() == nil {
		err = unreadAs("the file with the "+what, "check the path", err)
	}
	return unmarked(data), err
}
