//! Parses primitives: qualifiers with a value, protocols alone, and the special keywords.

use super::super::Proto;
use super::super::ast::{ByteTest, Direction, Expr, Kind, Primitive, Qualifiers, Tunnel};
use super::super::keyword::Keyword;
use super::super::lexer::{Symbol, TokenKind};
use super::{CONDITION, Parsed, Parser};

impl Parser<'_> {
    /// Parses a primitive; returns also the qualifiers that a value after it inherits.
    pub(super) fn primitive(&mut self) -> Parsed<(Expr, Option<Qualifiers>)> {
        let start = self.start();
        if self.at_extension() {
            return Ok((self.extension()?, None));
        }
        match self.peek() {
            Some(&TokenKind::Keyword(Keyword::Proto(proto))) => {
                if self.peek_nth(1) == Some(&TokenKind::Symbol(Symbol::LeftBracket)) {
                    return Ok((self.relation()?, None));
                }
                self.at += 1;
                self.after_protocol(proto, start)
            }
            Some(TokenKind::Number(_) | TokenKind::Keyword(Keyword::Len))
                if self.arithmetic_follows(1) =>
            {
                Ok((self.relation()?, None))
            }
            Some(TokenKind::Keyword(Keyword::Len) | TokenKind::Symbol(Symbol::Minus)) => {
                Ok((self.relation()?, None))
            }
            Some(TokenKind::Keyword(_)) => match self.special()? {
                Some(primitive) => Ok((self.or_inner(primitive, start)?, None)),
                None => self.qualified(None),
            },
            _ => Err(self.unexpected(CONDITION)),
        }
    }

    /// Parses what follows a protocol's name: the rest of a primitive, or nothing.
    fn after_protocol(&mut self, proto: Proto, start: usize) -> Parsed<(Expr, Option<Qualifiers>)> {
        let primitive = if self.take_keyword(Keyword::Broadcast) {
            Primitive::Broadcast(Some(proto))
        } else if self.take_keyword(Keyword::Multicast) {
            Primitive::Multicast(Some(proto))
        } else if self.at_qualifier() {
            return self.qualified(Some(proto));
        } else if let Some(word) = self.wlan_word() {
            self.at += 1;
            self.frame_primitive(word)?
        } else {
            Primitive::Protocol(proto)
        };
        Ok((Expr::Primitive(primitive, self.span_from(start)), None))
    }

    fn at_qualifier(&self) -> bool {
        matches!(
            self.peek(),
            Some(TokenKind::Keyword(
                Keyword::Src
                    | Keyword::Dst
                    | Keyword::Address(_)
                    | Keyword::Host
                    | Keyword::Net
                    | Keyword::Port
                    | Keyword::Portrange
                    | Keyword::ProtoType
                    | Keyword::Protochain
                    | Keyword::Gateway
            ))
        )
    }

    /// Parses direction and type qualifiers, then a value.
    fn qualified(&mut self, proto: Option<Proto>) -> Parsed<(Expr, Option<Qualifiers>)> {
        if !self.at_qualifier() {
            return Err(self.unexpected(CONDITION));
        }
        let direction = self.direction()?;
        let kind = self.kind(direction)?;
        let qualifiers = Qualifiers {
            proto,
            direction,
            kind,
        };
        let expr = match self.at_set() {
            true => self.id_set(qualifiers)?,
            false => self.id(qualifiers)?,
        };
        Ok((expr, Some(qualifiers)))
    }

    fn direction(&mut self) -> Parsed<Direction> {
        if let Some(&TokenKind::Keyword(Keyword::Address(address))) = self.peek() {
            self.at += 1;
            return Ok(Direction::Frame(address));
        }
        let first = if self.take_keyword(Keyword::Src) {
            Direction::Src
        } else if self.take_keyword(Keyword::Dst) {
            Direction::Dst
        } else {
            return Ok(Direction::Default);
        };
        let begin = self.at;
        let Some(junction) = self.junction() else {
            return Ok(first);
        };
        let other = match first {
            Direction::Src => Keyword::Dst,
            _ => Keyword::Src,
        };
        if !self.take_keyword(other) {
            let expected = if other == Keyword::Dst { "dst" } else { "src" };
            let error = self.unexpected(&[expected]);
            self.at = begin;
            return Err(error);
        }
        Ok(match junction {
            super::Junction::Or => Direction::SrcOrDst,
            super::Junction::And => Direction::SrcAndDst,
        })
    }

    /// Parses the type qualifier. After a direction only those with addresses or ports are valid.
    fn kind(&mut self, direction: Direction) -> Parsed<Kind> {
        let kind = match self.peek() {
            Some(TokenKind::Keyword(Keyword::Host)) => Kind::Host,
            Some(TokenKind::Keyword(Keyword::Net)) => Kind::Net,
            Some(TokenKind::Keyword(Keyword::Port)) => Kind::Port,
            Some(TokenKind::Keyword(Keyword::Portrange)) => Kind::Portrange,
            Some(TokenKind::Keyword(
                keyword @ (Keyword::ProtoType | Keyword::Protochain | Keyword::Gateway),
            )) => {
                if direction != Direction::Default {
                    return Err(self.unexpected(&["host", "net", "port", "portrange", "a value"]));
                }
                match keyword {
                    Keyword::ProtoType => Kind::Proto,
                    Keyword::Protochain => Kind::Protochain,
                    _ => Kind::Gateway,
                }
            }
            _ => return Ok(Kind::Default),
        };
        self.at += 1;
        Ok(kind)
    }

    /// Parses the primitives that have no qualifiers.
    fn special(&mut self) -> Parsed<Option<Primitive>> {
        let Some(&TokenKind::Keyword(keyword)) = self.peek() else {
            return Ok(None);
        };
        let at = self.at;
        self.at += 1;
        Ok(Some(match keyword {
            Keyword::Broadcast => Primitive::Broadcast(None),
            Keyword::Multicast => Primitive::Multicast(None),
            Keyword::Less => Primitive::Less(self.plain_number()?),
            Keyword::Greater => Primitive::Greater(self.plain_number()?),
            Keyword::Byte => self.byte()?,
            Keyword::Inbound => Primitive::Inbound,
            Keyword::Outbound => Primitive::Outbound,
            Keyword::Frame(word) => self.frame_primitive(word)?,
            Keyword::Ifindex => Primitive::Ifindex(self.plain_number()?),
            Keyword::Vlan if self.at_set() => self.vlan_set()?,
            Keyword::Vlan => Primitive::Tunnel(Tunnel::Vlan(self.optional_number()?)),
            Keyword::Mpls => Primitive::Tunnel(Tunnel::Mpls(self.optional_number()?)),
            Keyword::Pppoed => Primitive::Pppoed,
            Keyword::Pppoes => Primitive::Tunnel(Tunnel::Pppoes(self.optional_number()?)),
            Keyword::Geneve => Primitive::Tunnel(Tunnel::Geneve(self.optional_number()?)),
            Keyword::Vxlan => Primitive::Tunnel(Tunnel::Vxlan(self.optional_number()?)),
            Keyword::Llc => Primitive::Llc(self.llc_type()),
            _ => {
                self.at = at;
                return Ok(None);
            }
        }))
    }

    /// Parses the number after `vlan` and the like, in parentheses or not.
    fn optional_number(&mut self) -> Parsed<Option<u32>> {
        match self.peek() {
            Some(TokenKind::Number(_) | TokenKind::Symbol(Symbol::LeftParen)) => {
                self.parenthesised_number().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Parses the name after `llc`, which may be a keyword elsewhere.
    fn llc_type(&mut self) -> Option<String> {
        const KEYWORD: &str = "rnr";
        let token = self.peek_token()?;
        let word = &self.text[token.span.clone()];
        let name = match &token.kind {
            TokenKind::Name(name) => name.clone(),
            TokenKind::Keyword(_) if word == KEYWORD => word.to_owned(),
            _ => return None,
        };
        self.at += 1;
        Some(name)
    }

    /// Parses `byte OFFSET = VALUE`.
    fn byte(&mut self) -> Parsed<Primitive> {
        let offset = self.plain_number()?;
        let test = match self.peek() {
            Some(TokenKind::Symbol(Symbol::Equal)) => ByteTest::Equal,
            Some(TokenKind::Symbol(Symbol::Less)) => ByteTest::Less,
            Some(TokenKind::Symbol(Symbol::Greater)) => ByteTest::Greater,
            Some(TokenKind::Symbol(Symbol::Ampersand)) => ByteTest::And,
            Some(TokenKind::Symbol(Symbol::Bar)) => ByteTest::Or,
            _ => return Err(self.unexpected(&["=", "<", ">", "&", "|"])),
        };
        self.at += 1;
        Ok(Primitive::Byte(offset, test, self.plain_number()?))
    }
}
