//! The body of a loop under construction: equal instructions are one, and bools that are known are not computed.

use std::collections::HashMap;

use tilt_ir::Arena;

use super::prune;
use crate::lir::{
    Access, AccessId, Binary, Compare, Function, Imm, Inst, Lanes, Loop, Node, Param, ParamId,
    Sink, Ty, Unary, ValueId, unique,
};

/// Whether there is a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Valid {
    /// In every row.
    Always,
    /// In no row.
    Never,
    /// Where this bool is true.
    If(ValueId),
}

/// A finished loop, and what is left of its accesses and parameters, by their ids in the [`Body`].
#[derive(Debug)]
pub struct Finished {
    /// The loop.
    pub body: Loop,
    /// The accesses it has.
    pub accesses: Vec<AccessId>,
    /// The parameters it has.
    pub params: Vec<ParamId>,
}

/// Builds the body of a loop.
#[derive(Clone, Default, Debug)]
pub struct Body {
    accesses: Arena<AccessId, Access>,
    params: Arena<ParamId, Param>,
    values: Arena<ValueId, Node>,
    known: HashMap<Node, ValueId>,
}

impl Body {
    /// The finished loop, without what its sink does not need.
    pub fn finish(self, name: impl Into<String>, lanes: Lanes, sink: Sink) -> Finished {
        prune::prune(Loop {
            name: name.into(),
            lanes,
            accesses: self.accesses,
            params: self.params,
            values: self.values,
            sink,
        })
    }

    /// Adds a column to read; its name is made unique.
    pub fn access(&mut self, mut access: Access) -> AccessId {
        let taken = |name: &str| self.accesses.iter().any(|(_, a)| a.name == name);
        access.name = unique(&access.name, taken);
        self.accesses.push(access)
    }

    /// Adds a loop-invariant value; its name is made unique.
    pub fn param(&mut self, name: &str, ty: Ty) -> ParamId {
        let taken = |name: &str| self.params.iter().any(|(_, p)| p.name == name);
        let name = unique(name, taken);
        self.params.push(Param { name, ty })
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> Ty {
        self.values[value].ty
    }

    /// The instruction of a value.
    pub fn inst(&self, value: ValueId) -> &Inst {
        &self.values[value].inst
    }

    fn push(&mut self, inst: Inst, ty: Ty) -> ValueId {
        let node = Node { inst, ty };
        if let Some(known) = self.known.get(&node) {
            return *known;
        }
        let id = self.values.push(node.clone());
        self.known.insert(node, id);
        id
    }

    /// A constant.
    pub fn constant(&mut self, imm: Imm) -> ValueId {
        self.push(Inst::Const(imm), imm.ty)
    }

    /// An integer constant of type `ty`.
    pub fn int(&mut self, ty: Ty, value: i64) -> ValueId {
        self.constant(Imm::int(ty, value))
    }

    /// A float constant of type `ty`.
    pub fn float(&mut self, ty: Ty, value: f64) -> ValueId {
        self.constant(Imm::float(ty, value))
    }

    /// The value of a parameter.
    pub fn given(&mut self, param: ParamId) -> ValueId {
        let ty = self.params[param].ty;
        self.push(Inst::Param(param), ty)
    }

    /// The number of the row.
    pub fn row(&mut self) -> ValueId {
        self.push(Inst::Row, Ty::I64)
    }

    /// The element that an access reads.
    pub fn load(&mut self, access: AccessId) -> ValueId {
        let ty = self.accesses[access].ty;
        self.push(Inst::Load(access), ty)
    }

    /// Whether there is one; `Always` if the access is not nullable.
    pub fn valid(&mut self, access: AccessId) -> Valid {
        if self.accesses[access].nullable {
            Valid::If(self.push(Inst::Valid(access), Ty::Bool))
        } else {
            Valid::Always
        }
    }

    /// The element of a table.
    pub fn lookup(&mut self, access: AccessId, index: ValueId) -> ValueId {
        let ty = self.accesses[access].ty;
        self.push(Inst::Lookup(access, index), ty)
    }

    fn known_bool(&self, value: ValueId) -> Option<bool> {
        match self.values[value].inst {
            Inst::Const(imm) if imm.ty == Ty::Bool => Some(imm.bits != 0),
            _ => None,
        }
    }

    /// An instruction of one operand.
    pub fn unary(&mut self, op: Unary, a: ValueId) -> ValueId {
        if let (Unary::Not, Some(known)) = (op, self.known_bool(a)) {
            return self.constant(Imm::bool(!known));
        }
        if let (Unary::Not, Inst::Unary(Unary::Not, inner)) = (op, &self.values[a].inst) {
            return *inner;
        }
        let ty = self.ty(a);
        self.push(Inst::Unary(op, a), ty)
    }

    /// An instruction of two operands.
    pub fn binary(&mut self, op: Binary, a: ValueId, b: ValueId) -> ValueId {
        match (op, self.known_bool(a), self.known_bool(b)) {
            (Binary::And, Some(true), _) | (Binary::Or, Some(false), _) => return b,
            (Binary::And, _, Some(true)) | (Binary::Or, _, Some(false)) => return a,
            (Binary::And, Some(false), _) | (Binary::Or, Some(true), _) => return a,
            (Binary::And, _, Some(false)) | (Binary::Or, _, Some(true)) => return b,
            _ => {}
        }
        if a == b && matches!(op, Binary::And | Binary::Or) {
            return a;
        }
        let ty = self.ty(a);
        self.push(Inst::Binary(op, a, b), ty)
    }

    /// A comparison.
    pub fn compare(&mut self, op: Compare, a: ValueId, b: ValueId) -> ValueId {
        self.push(Inst::Compare(op, a, b), Ty::Bool)
    }

    /// `then` where `cond` is true, else `otherwise`.
    pub fn select(&mut self, cond: ValueId, then: ValueId, otherwise: ValueId) -> ValueId {
        if then == otherwise {
            return then;
        }
        match self.known_bool(cond) {
            Some(true) => return then,
            Some(false) => return otherwise,
            None => {}
        }
        let ty = self.ty(then);
        self.push(Inst::Select(cond, then, otherwise), ty)
    }

    /// The value in another type.
    pub fn convert(&mut self, value: ValueId, ty: Ty) -> ValueId {
        if self.ty(value) == ty {
            return value;
        }
        self.push(Inst::Convert(value), ty)
    }

    /// The bits in another type of the same width.
    pub fn bits(&mut self, value: ValueId, ty: Ty) -> ValueId {
        if self.ty(value) == ty {
            return value;
        }
        self.push(Inst::Bits(value), ty)
    }

    /// A call of a runtime function.
    pub fn call(&mut self, name: &str, args: Vec<ValueId>, result: Ty) -> ValueId {
        let function = Function {
            name: name.to_owned(),
            params: args.iter().map(|a| self.ty(*a)).collect(),
            result,
        };
        self.push(Inst::Call(function, args), result)
    }

    /// Validity as a bool.
    pub fn truth(&mut self, valid: Valid) -> ValueId {
        match valid {
            Valid::Always => self.constant(Imm::bool(true)),
            Valid::Never => self.constant(Imm::bool(false)),
            Valid::If(value) => value,
        }
    }

    /// A bool as validity.
    pub fn valid_if(&self, value: ValueId) -> Valid {
        match self.known_bool(value) {
            Some(true) => Valid::Always,
            Some(false) => Valid::Never,
            None => Valid::If(value),
        }
    }

    /// Where both are.
    pub fn both(&mut self, a: Valid, b: Valid) -> Valid {
        match (a, b) {
            (Valid::Never, _) | (_, Valid::Never) => Valid::Never,
            (Valid::Always, other) | (other, Valid::Always) => other,
            (Valid::If(a), Valid::If(b)) => Valid::If(self.binary(Binary::And, a, b)),
        }
    }

    /// Where either is.
    pub fn either(&mut self, a: Valid, b: Valid) -> Valid {
        match (a, b) {
            (Valid::Always, _) | (_, Valid::Always) => Valid::Always,
            (Valid::Never, other) | (other, Valid::Never) => other,
            (Valid::If(a), Valid::If(b)) => Valid::If(self.binary(Binary::Or, a, b)),
        }
    }
}
