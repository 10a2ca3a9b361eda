//! Hardware addresses, and the broadcast and multicast of the link layer.

use super::{End, Lowered, Lowering, after};
use crate::error::ErrorKind;
use crate::ir::{Condition, Size};
use crate::language::ast::Direction;
use crate::link::{AddressField, equals};

impl Lowering<'_> {
    /// Tests a hardware address in the fields of the direction.
    pub(super) fn hardware_test(
        &mut self,
        direction: Direction,
        address: [u8; 6],
    ) -> Lowered<Condition> {
        let test = match direction {
            Direction::Frame(which) => self.has_address(AddressField::Frame(which), address)?,
            _ => self.in_direction(direction, |this, end| match end {
                End::Src => this.has_address(AddressField::Src, address),
                End::Dst => this.has_address(AddressField::Dst, address),
            })?,
        };
        Ok(self.in_frame(test))
    }

    /// Tests the one-byte address of a station.
    pub(super) fn station_test(&mut self, direction: Direction, address: u8) -> Lowered<Condition> {
        let Some(stations) = self.link.stations() else {
            return Err(self.not_here("a test of one-byte addresses"));
        };
        let header = self.place.header;
        self.in_direction(direction, |this, end| {
            let offset = match end {
                End::Src => stations.src,
                End::Dst => stations.dst,
            };
            let at = header + offset;
            Ok(equals(this.values, Size::Byte, at, address.into()))
        })
    }

    fn has_address(&mut self, which: AddressField, address: [u8; 6]) -> Lowered<Condition> {
        let test = self.link.address(self.values, self.place, which, address);
        let primitive = match which {
            AddressField::Src | AddressField::Dst => "a test of hardware addresses",
            _ => "a test of an address of 802.11 frames",
        };
        test.ok_or_else(|| self.not_here(primitive))
    }

    pub(super) fn link_broadcast(&mut self) -> Lowered<Condition> {
        let test = self.link.broadcast(self.values, self.place);
        let test = test.ok_or_else(|| self.not_here("a broadcast"))?;
        Ok(self.in_frame(test))
    }

    pub(super) fn link_multicast(&mut self) -> Lowered<Condition> {
        let test = self.link.multicast(self.values, self.place);
        let test = test.ok_or_else(|| self.not_here("a multicast"))?;
        Ok(self.in_frame(test))
    }

    /// Adds the condition that there is a link-layer header, if that is not certain.
    fn in_frame(&mut self, test: Condition) -> Condition {
        after(self.has_link_header(), test)
    }

    /// Rejects other values: the addresses of 802.11 frames by place and role are hardware
    /// addresses only.
    pub(super) fn only_hardware(direction: Direction) -> Lowered<()> {
        match direction {
            Direction::Frame(_) => Err(ErrorKind::NotHardware),
            _ => Ok(()),
        }
    }
}
